"""A data plane with real varnishd and ghost: what is asked for serves, and the last good stays."""

import asyncio
import json
import os
import signal
import socket
import time

import pytest

from loopback import free_port
from support.http.client import Request, over_http1
from support.varnish.dataplane import (
    FREE_PORTS,
    ask,
    endpoints,
    must_serve,
    port_of,
    published,
    routing,
    running,
    running_with_parts,
    until_answer,
    until_header,
    until_published,
    user_vcl,
    vcl_with_header,
)
from support.waiting import until_async
from varnish_gateway import errors
from varnish_gateway.dataplane import events, quarantine
from varnish_gateway.dataplane.change import Change
from varnish_gateway.dataplane.process.sockets import parse_listen
from varnish_gateway.dataplane.quarantine import QuarantineDelays
from varnish_gateway.dataplane.varnish import supervisor
from varnish_gateway.dataplane.varnish.parameters import missing_limit
from varnish_gateway.dataplane.varnish.vcl import KEPT_VCLS
from varnish_gateway.ir.arguments import PLAINTEXT_HTTP2


@pytest.fixture
async def plane_and_parts(origins):
    async with running_with_parts() as (data_plane, parts):
        tea = await origins.port("tea")
        await must_serve(
            data_plane,
            Change(vcl=vcl_with_header("one"), routing=routing("tea"), slices=endpoints("tea", tea), generation="1"),
        )
        yield data_plane, parts


@pytest.fixture
def plane(plane_and_parts):
    return plane_and_parts[0]


@pytest.fixture
def parts(plane_and_parts):
    return plane_and_parts[1]


async def test_routing_and_endpoints_serve(plane):
    answer = await ask(port_of(plane))
    assert (answer.status, answer.origin, answer.header("says")) == (200, "tea", "one")
    assert (await ask(port_of(plane), "coffee")).status == 404
    served = plane.served
    assert (served.ready, served.generation, served.up_to_date) == (True, "1", True)


async def test_changed_endpoints_receive_the_traffic(plane, origins):
    other = await origins.port("other tea")
    before = await ask(port_of(plane))
    gone = dict.fromkeys(endpoints("tea", await origins.port("tea")))
    await must_serve(plane, Change(slices={**gone, **endpoints("tea", other)}))
    after = await ask(port_of(plane))
    assert (before.origin, after.origin) == ("tea", "other tea")


async def test_bursts_become_few_reloads(plane):
    before = len(published(plane, events.Reloaded))
    outcomes = await asyncio.gather(
        *(plane.apply(Change(slices=endpoints("tea", 10000 + number))) for number in range(50))
    )
    assert all(outcome.serves for outcome in outcomes)
    assert len(published(plane, events.Reloaded)) - before <= 2


async def test_unchanged_input_causes_no_reload(plane, origins):
    before = [*plane.bus.history]
    await must_serve(
        plane,
        Change(vcl=vcl_with_header("one"), routing=routing("tea"), slices=endpoints("tea", await origins.port("tea"))),
    )
    assert [*plane.bus.history] == before


async def test_rejected_vcl_keeps_the_last_good_and_reports_the_users_line(plane):
    outcome = await plane.apply(Change(vcl=user_vcl("sub vcl_recv {\n  nonsense;\n}"), generation="2"))
    (problem,) = outcome.problems
    assert isinstance(problem, errors.VclRejected)
    assert "(user.vcl Line 2 Pos 3)" in str(problem)
    assert str(problem).startswith("Symbol not found: 'nonsense'\n")
    assert "VCC-compiler" not in str(problem)
    assert (await ask(port_of(plane))).header("says") == "one"
    assert (plane.served.ready, plane.served.generation, plane.served.up_to_date) == (True, "1", False)
    await must_serve(plane, Change(vcl=vcl_with_header("two"), generation="3"))
    assert (await ask(port_of(plane))).header("says") == "two"
    assert plane.served.generation == "3"


async def test_rejected_vcl_is_compiled_once(plane):
    bad = Change(vcl=user_vcl("nonsense"))
    await plane.apply(bad)
    await plane.apply(bad)
    assert len(published(plane, events.VclFailed)) == 1


async def test_vcl_with_killed_compiler_is_retried_and_reported_once(monkeypatch):
    monkeypatch.setattr(quarantine, "ROUTINE", QuarantineDelays(0.2, 600))
    async with running() as plane:
        reachable = plane.settings.work_dir / "varnishd"  # the compiler runs inside varnishd's fence
        flag, attempts = reachable / "flag", reachable / "attempts"
        compiler = f"[ -e {flag} ] && echo >>{attempts} && kill -9 $$; exec gcc -O0 -fpic -shared -w -o %o %s"
        change = Change(vcl=vcl_with_header("one"), routing=routing("tea"), extra_args=("-p", f"cc_command={compiler}"))
        await must_serve(plane, change)
        flag.touch()
        attempts.touch()
        attempts.chmod(0o666)  # the compiler is another user
        (problem,) = (await plane.apply(Change(vcl=vcl_with_header("two")))).problems
        assert isinstance(problem, errors.VclRejected)
        await until_async(lambda: attempts.stat().st_size > 2, "it was tried again twice")
        assert len(published(plane, events.VclFailed)) == 1
        flag.unlink()
        await until_header(port_of(plane), "says", "two")


async def test_vcl_that_fails_in_vcl_init_is_reported_once(plane, parts):
    failing = Change(vcl=user_vcl('sub vcl_init { return (fail("not now")); }'))
    first = str((await plane.apply(failing)).problems[0])
    assert "not now" in first
    parts.vcl.release()
    assert str((await plane.apply(failing)).problems[0]) == first
    assert len(published(plane, events.VclFailed)) == 1


async def test_unused_vcls_are_discarded(plane):
    for number in range(KEPT_VCLS + 3):
        await must_serve(plane, Change(vcl=vcl_with_header(f"number {number}")))
    ours = [entry for entry in await plane.admin.vcl_list() if entry.status != "discarded"]
    assert len(ours) <= KEPT_VCLS + 1
    directory = plane.settings.work_dir / "vcl"
    assert len(list(directory.iterdir())) <= KEPT_VCLS + 1


async def test_rejected_ghost_configuration_keeps_the_last_good(plane):
    outcome = await plane.apply(Change(routing={0: b'{"version": 2, "listeners": [{"name": 1}]}'}))
    (problem,) = outcome.problems
    assert isinstance(problem, errors.ReloadRejected)
    assert (await ask(port_of(plane))).status == 200
    worker = (await plane.admin.pid()).worker
    os.kill(worker, signal.SIGKILL)
    await until_published(plane, events.ChildBack)
    await until_answer(port_of(plane), 200)
    await must_serve(plane, Change(routing=routing("tea", "coffee")))
    assert (await ask(port_of(plane), "coffee")).status == 503


async def test_killed_worker_restarts_with_the_served_configuration(plane):
    await must_serve(plane, Change(vcl=vcl_with_header("two"), routing=routing("tea", "coffee")))
    os.kill((await plane.admin.pid()).worker, signal.SIGKILL)
    await until_published(plane, events.ChildDied)
    await until_answer(port_of(plane), 200)
    assert (await ask(port_of(plane))).header("says") == "two"
    assert (await ask(port_of(plane), "coffee")).status == 503
    await until_async(lambda: plane.served.ready, "it is ready")


async def test_worker_panic_is_recorded(plane):
    with pytest.raises(errors.AdminError):
        await plane.admin.call("debug.panic.worker")
    await until_published(plane, events.ChildDied)
    (death,) = published(plane, events.ChildDied)
    assert "You asked for it" in death.panic
    await until_answer(port_of(plane), 200)


async def test_stopped_worker_is_restarted(plane):
    await plane.admin.stop()
    await until_published(plane, events.ChildBack)
    assert (await ask(port_of(plane))).status == 200


async def test_stopped_worker_restarts_with_configuration_changed_meanwhile(plane):
    await plane.admin.stop()
    await must_serve(plane, Change(routing=routing("tea", "coffee")))
    assert (await ask(port_of(plane), "coffee")).status == 503


@pytest.mark.parametrize(
    "bad",
    [
        {"vcl": vcl_with_header("one"), "routing": {0: b'{"version": 2, "listeners": [{"name": 1}]}'}},
        {"vcl": user_vcl('sub vcl_init { return (fail("no")); }')},
    ],
    ids=["configuration", "vcl"],
)
async def test_failed_first_worker_start_does_not_block_the_next_change(bad):
    async with running() as plane:
        outcome = await plane.apply(Change(**bad))
        assert [type(problem) for problem in outcome.problems] == [errors.ChildExited]
        assert plane.in_force is None
        await must_serve(plane, Change(vcl=vcl_with_header("two"), routing=routing("tea")))
        assert (await ask(port_of(plane))).header("says") == "two"


async def test_killed_manager_restarts_with_the_last_good_configuration(origins):
    port = free_port()
    async with running(f"ghost-reload=127.0.0.1:0,http;http-1=127.0.0.1:{port},http") as plane:
        await must_serve(
            plane,
            Change(
                vcl=vcl_with_header("one"), routing=routing("tea"), slices=endpoints("tea", await origins.port("tea"))
            ),
        )
        await plane.apply(Change(vcl=user_vcl("nonsense")))
        before = plane.supervisor.pid
        starts = len(published(plane, events.VarnishdStarted))
        os.kill(before, signal.SIGKILL)
        # The worker of the killed varnishd answers for a moment.
        await until_async(lambda: len(published(plane, events.VarnishdStarted)) > starts, "varnishd runs again")
        await until_answer(port, 200)
        assert plane.supervisor.pid != before
        assert (await ask(port)).header("says") == "one"


async def test_listener_change_restarts_varnishd_once_and_announces_it(origins):
    first, second = free_port(), free_port()
    old = f"ghost-reload=127.0.0.1:0,http;http-1=127.0.0.1:{first},http"
    async with running(old) as plane:
        await must_serve(
            plane,
            Change(
                vcl=vcl_with_header("one"), routing=routing("tea"), slices=endpoints("tea", await origins.port("tea"))
            ),
        )
        await must_serve(plane, Change(sockets=parse_listen(f"{old};http-2=127.0.0.1:{second},http")))
        assert [(await ask(port)).status for port in (first, second)] == [200, 200]
        assert len(published(plane, events.Restarting)) == 1


async def test_listener_on_an_occupied_port_keeps_serving_and_is_retried(plane):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        before = plane.supervisor.pid
        desired = parse_listen(f"{FREE_PORTS};http-2=127.0.0.1:{port},http")
        outcome = await plane.apply(Change(sockets=desired))
        assert f"socket http-2 on 127.0.0.1:{port}: Address already in use" in str(outcome.problems[0])
        assert plane.supervisor.pid == before
        assert not (await plane.apply(Change(vcl=vcl_with_header("two")))).serves
        assert (await ask(port_of(plane))).header("says") == "two"
    await until_async(lambda: plane.served.up_to_date, "everything is in force")
    await until_answer(port, 200)


async def test_sockets_rejected_by_varnishd_restore_the_previous_ones(plane):
    desired = parse_listen(f"{FREE_PORTS};http-2=127.0.0.1:0,nonsense")
    outcome = await plane.apply(Change(sockets=desired))
    assert not outcome.serves
    assert (await ask(port_of(plane))).header("says") == "one"
    pid = plane.supervisor.pid
    await plane.apply(Change(vcl=vcl_with_header("two")))
    assert plane.supervisor.pid == pid


async def test_changed_arguments_restart_varnishd_with_the_last_good_vcl(plane):
    await plane.apply(Change(vcl=user_vcl("nonsense")))
    outcome = await plane.apply(Change(extra_args=("-p", "default_ttl=7")))
    assert [type(problem) for problem in outcome.problems] == [errors.VclRejected]
    assert (await plane.admin.param_show("default_ttl")).value == 7.0
    assert (await ask(port_of(plane))).header("says") == "one"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("-p", "thread_pool_min=1000000"), "Must be no more than 5000"),
        (("-p", "nosuch=1"), 'Unknown parameter "nosuch"'),
    ],
)
async def test_arguments_rejected_by_varnishd_leave_the_running_one_untouched(plane, words, reason):
    before = plane.supervisor.pid
    outcome = await plane.apply(Change(extra_args=words))
    assert reason in str(outcome.problems[0])
    assert plane.supervisor.pid == before
    assert (await ask(port_of(plane))).header("says") == "one"
    await must_serve(plane, Change(extra_args=()))
    assert plane.supervisor.pid == before


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("-s", "malloc,nonsense"), "Invalid number"),  # some versions notice when a worker starts
        (("-p", "cc_command=exit 1"), "varnishd rejects the last good VCL"),
    ],
)
async def test_arguments_that_fail_at_launch_restore_the_previous_ones(plane, monkeypatch, words, reason):
    async def nothing(_):
        return None

    monkeypatch.setattr(supervisor, "rejection", nothing)
    outcome = await plane.apply(Change(extra_args=words))
    assert reason in str(outcome.problems[0])
    before = plane.supervisor.pid
    assert (await ask(port_of(plane))).header("says") == "one"
    await must_serve(plane, Change(extra_args=()))
    await plane.apply(Change(generation="2"))
    assert plane.supervisor.pid == before


async def test_killed_manager_restarts_with_accepted_not_rejected_arguments(plane):
    await plane.apply(Change(extra_args=("-p", "nosuch=1")))
    os.kill(plane.supervisor.pid, signal.SIGKILL)
    await until_published(plane, events.VarnishdExited)
    await until_async(lambda: plane.served.ready, "it is ready")
    assert (await ask(port_of(plane))).header("says") == "one"
    assert "nosuch" in plane.served.problems[0]


async def test_killed_manager_is_restarted_though_a_fault_follows_its_launch(plane, parts, monkeypatch):
    rehearse = supervisor.rejection
    faults = [BlockingIOError("no more processes")]

    async def rejection(extra_args):
        if faults:
            raise faults.pop()
        return await rehearse(extra_args)

    monkeypatch.setattr(supervisor, "rejection", rejection)
    os.kill(plane.supervisor.pid, signal.SIGKILL)
    parts.desired.update(Change(extra_args=("-p", "nosuch=1")))  # before the supervisor notices the death
    await until_published(plane, events.VarnishdExited)
    await until_async(lambda: not faults and plane.served.ready, "it is ready")
    assert (await ask(port_of(plane))).header("says") == "one"


async def test_failed_start_reports_the_output_of_varnishd():
    with pytest.raises(errors.ChildExited, match=r"5000 \(thread_pool_max\) \(attempting to set"):
        async with running(extra_args=("-p", "thread_pool_min=1000000")):
            pass


async def test_start_with_an_occupied_port_raises_an_error():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(errors.ChildExited, match="in use"):
            async with running(f"http-1=127.0.0.1:{taken.getsockname()[1]},http"):
                pass


@pytest.mark.parametrize(
    "headers", [(("big", "x" * 30_000),), tuple((f"h-{number}", "x" * 250) for number in range(100))]
)
async def test_a_large_head_is_served(plane, headers):
    request = Request(method="GET", target="/", host="tea", headers=headers)
    assert (await over_http1(port_of(plane), request.as_http1())).status == 200


async def test_stop_waits_for_open_connections(origins):
    async with running() as plane:
        await must_serve(
            plane,
            Change(
                vcl=vcl_with_header("one"), routing=routing("tea"), slices=endpoints("tea", await origins.port("tea"))
            ),
        )
        _, writer = await asyncio.open_connection("127.0.0.1", port_of(plane))
        writer.write(b"GET / HTTP/1.1\r\nHost: tea\r\n\r\n")
        stopping = asyncio.create_task(plane.stop(drain_seconds=5))
        await until_published(plane, events.Draining)
        assert plane.served.reason == "draining"
        assert (await ask(port_of(plane))).status == 200
        writer.close()
        started = time.monotonic()
        await stopping
        assert time.monotonic() - started < 4.5
        assert not plane.supervisor.running


async def test_files_on_disk_match_the_ghost_manifest(plane):
    directory = plane.settings.work_dir / "ghost"
    manifest = json.loads((directory / "ghost.json").read_text())
    assert {path.name for path in directory.iterdir()} == {
        "ghost.json",
        *manifest["routing"],
        *manifest["endpoints"],
    }
    assert manifest["id"] == plane.served.configuration


# -- HTTP/2 without TLS ---------------------------------------------------------------------------


async def speaks_http2(plane) -> bool:
    """Whether the plain socket answers a client that begins with HTTP/2."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(plane))
    try:
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
        async with asyncio.timeout(10):
            received = await reader.read(9)
    finally:
        writer.close()
    assert received[3:4] == b"\x04" or received.startswith((b"HTTP/1.1 ", b"")), received
    return received[3:4] == b"\x04"  # a frame with settings


async def test_plain_sockets_speak_no_http2_by_default(plane):
    assert not await speaks_http2(plane)


async def test_class_turns_http2_on_where_varnishd_limits_rapid_resets(plane):
    before, lacks = plane.supervisor.pid, await missing_limit(PLAINTEXT_HTTP2)
    outcome = await plane.apply(Change(extra_args=PLAINTEXT_HTTP2))
    assert [str(problem) for problem in outcome.problems] == ([] if lacks is None else [str(lacks)])
    assert (plane.supervisor.pid == before) == (lacks is not None)
    assert await speaks_http2(plane) == (lacks is None)
    assert (await ask(port_of(plane))).header("says") == "one"


async def test_user_turns_http2_on_and_off(origins):
    tea = await origins.port("tea")
    for word, expected in (("+", True), ("-", False)):
        async with running(extra_args=("-p", f"feature={word}http2")) as plane:
            change = Change(vcl=vcl_with_header("one"), routing=routing("tea"), slices=endpoints("tea", tea))
            await must_serve(plane, change)
            assert await speaks_http2(plane) == expected
