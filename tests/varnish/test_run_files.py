"""``vgw run`` from outside: files in, traffic out."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from loopback import free_port
from support import manifests
from support.directories import replace
from support.http.client import Connection, ask
from support.http.load import Answerer, under_load
from support.manifests import USER_VCL_CLASS, service, user_vcl
from support.processes import children, program, working_in
from support.vgw_process import VgwProcess, vgw_run
from support.waiting import until_async

HOST = "cafe.example.com"


@pytest.fixture
def conf(workdir) -> Path:
    """Make the directory that gateways of ``run`` read."""
    conf = workdir / "conf"
    conf.mkdir()
    return conf


@pytest.fixture
async def run(conf, workdir) -> AsyncIterator[Callable[..., Awaitable[VgwProcess]]]:
    work = workdir / "work"
    async with contextlib.AsyncExitStack() as stack:

        async def start(*options: str) -> VgwProcess:
            return await stack.enter_async_context(vgw_run(conf, options=("--work-dir", str(work), *options)))

        yield start
    assert not working_in(work)


@pytest.fixture
async def cafe(conf, origins) -> int:
    """Write the files of a small gateway; return the port that it listens on."""
    port = free_port()
    (conf / "gateway.yaml").write_text(gateway(port))
    (conf / "route.yaml").write_text(route("tea"))
    for name in ("tea", "coffee"):
        (conf / f"{name}.yaml").write_text(service(name, await origins.port(name)))
    return port


def gateway(*ports: int) -> str:
    return manifests.gateway("cafe", *ports)


def route(to: str) -> str:
    return manifests.route("cafe", "cafe", HOST, **{to: 1})


def other_gateway(*ports: int) -> str:
    """Return a second Gateway, which serves coffee."""
    return f"{manifests.gateway('other', *ports)}---\n{manifests.route('other', 'other', HOST, coffee=1)}"


async def serves(port: int, answered_by: Answerer, what: str) -> None:
    """Wait for answers of an origin, or with a status; 0 is no answer."""

    async def serves_now() -> bool:
        return (await ask(port, HOST)).answered_by == answered_by

    await until_async(serves_now, what)


async def status_is(port: int, target: str, status: int, what: str) -> None:
    async def is_now() -> bool:
        return (await ask(port, HOST, target)).status == status

    await until_async(is_now, what)


def managers(gateway: VgwProcess) -> list[int]:
    """Return the varnishds of a gateway, one for each Gateway."""
    return [pid for pid in children(gateway.process.pid) if program(pid) == "varnishd"]


async def test_files_are_served_and_edits_are_applied(run, cafe, conf, origins):
    vgw_run = await run()
    await serves(cafe, "tea", "the first answer")
    assert (await ask(cafe, HOST, "/path?query")).json["target"] == "/path?query"
    assert (await ask(cafe, "other.example.com")).status == 404
    before = managers(vgw_run)

    replace(conf / "route.yaml", route("coffee"))
    await serves(cafe, "coffee", "the route's change")

    replace(conf / "coffee.yaml", service("coffee", await origins.port("tea")))
    await serves(cafe, "tea", "the endpoints' change")

    (conf / "route.yaml").unlink()
    await serves(cafe, 404, "the route's removal")

    (conf / "sub").mkdir()
    (conf / "sub" / "route.yaml").write_text(route("tea"))
    await serves(cafe, "tea", "a route in a new directory")
    assert managers(vgw_run) == before, "none of this restarts varnishd"


def cache_policy(fields: str) -> str:
    return (
        "apiVersion: gateway.varnish-software.com/v1alpha1\n"
        "kind: VarnishCachePolicy\n"
        "metadata: {name: pages}\n"
        f"spec: {{targetRef: {{kind: HTTPRoute, name: cafe}}, defaultTTL: 1h, cacheStatus: 'On', {fields}}}\n"
    )


async def test_cache_policy_is_in_force_while_its_file_is_there_and_valid(run, cafe, conf):
    async def cache_status() -> str:
        return (await ask(cafe, HOST, "/page?utm_source=mail&a=1")).header("cache-status") or ""

    async def hits() -> bool:
        return "varnish-gateway; hit;" in await cache_status()

    async def passes() -> bool:
        return not await cache_status()

    await run()
    await serves(cafe, "tea", "the first answer")
    assert await passes()
    (conf / "policy.yaml").write_text(cache_policy("cacheKey: {queryParameters: {exclude: ['utm_*']}}"))
    await until_async(hits, "a hit")
    assert "hit" in ((await ask(cafe, HOST, "/page?a=1")).header("cache-status") or ""), "utm_* merges objects"
    replace(conf / "policy.yaml", cache_policy("bypass: {headers: [{name: x-debug, valueRegex: '('}]}"))
    await until_async(passes, "an invalid policy that caches nothing")
    replace(conf / "policy.yaml", cache_policy("cacheKey: {queryParameters: {exclude: ['utm_*']}}"))
    await until_async(hits, "the object that is still there")
    (conf / "policy.yaml").unlink()
    await until_async(passes, "no policy")


async def test_invalid_file_keeps_the_last_good_until_corrected(run, cafe, conf):
    vgw_run = await run()
    await serves(cafe, "tea", "the first answer")

    (conf / "route.yaml").write_text(route("coffee").replace("backendRefs", "backendRef"))
    what = 'spec.rules[0].backendRef: unknown field; did you mean "backendRefs"?'
    await vgw_run.wait_for_message(f"{conf}/route.yaml:7: HTTPRoute default/cafe (document 1): {what}")
    (conf / "gateway.yaml").write_text("spec: [\n")
    await vgw_run.wait_for_message(f"{conf}/gateway.yaml:1: ")
    assert (await ask(cafe, HOST)).answered_by == "tea"

    (conf / "route.yaml").write_text(route("coffee"))
    await serves(cafe, "coffee", "the correction")


async def test_start_with_invalid_files_serves_after_correction(run, cafe, conf):
    (conf / "gateway.yaml").write_text(gateway(cafe).replace("protocol", "protocoll"))
    vgw_run = await run()
    await vgw_run.wait_for_message("found no Gateway to serve")
    assert vgw_run.process.returncode is None
    (conf / "gateway.yaml").write_text(gateway(cafe))
    await serves(cafe, "tea", "the correction")


async def test_listener_change_restarts_no_varnishd(run, cafe, conf):
    other, added = free_port(), free_port()
    (conf / "other.yaml").write_text(other_gateway(other))
    vgw_run = await run()
    await serves(cafe, "tea", "the first Gateway")
    await serves(other, "coffee", "the second Gateway")

    before = managers(vgw_run)
    async with (
        under_load(other, {HOST: frozenset({"coffee"})}) as others,
        under_load(cafe, {HOST: frozenset({"tea"})}) as own,
    ):
        replace(conf / "gateway.yaml", gateway(cafe, added))
        await serves(added, "tea", "the new listener")
        replace(conf / "gateway.yaml", gateway(cafe))
        await serves(added, 0, "its end")
    for load in (others, own):
        assert (load.wrong, load.failed) == ([], [])
        assert load.answered
    assert managers(vgw_run) == before


async def test_later_port_of_another_process_leaves_the_gateway_programmed_and_is_reported(run, cafe, conf):
    health = free_port()
    (conf / "gateway.yaml").write_text(f"{gateway(cafe)}  allowedListeners: {{namespaces: {{from: Same}}}}\n")
    vgw_run = await run("--health-addr", f"127.0.0.1:{health}")
    await serves(cafe, "tea", "the Gateway")
    with socket.socket() as occupant:
        occupant.bind(("0.0.0.0", 0))
        occupant.listen()
        port = occupant.getsockname()[1]
        (conf / "set.yaml").write_text(listener_set(port))
        await vgw_run.wait_for_message(
            f"http-{port} is not open: socket http-{port} on :{port}: Address already in use"
        )
        await vgw_run.wait_for_record(
            lambda record: (
                record["message"].startswith("ListenerSet default/more: ") and "(Pending)" in record["message"]
            )
        )
        ready = await ask(health, HOST, "/ready")
        (served,) = ready.json["gateways"].values()
        assert (ready.status, served["upToDate"], served["problems"]) == (200, True, [])
        assert f"by process {os.getpid()}" in served["closed"][f"http-{port}"]
        assert any(line.startswith("ListenerSet default/more: ") for line in ready.json["problems"])
        since = len(vgw_run.log)
    await vgw_run.wait_for_record(
        lambda record: record["message"].startswith("ListenerSet default/more: Accepted, Programmed"), since=since
    )
    assert not any("Gateway default/cafe: not" in record["message"] for record in vgw_run.log)


def listener_set(port: int) -> str:
    return f"""
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {{name: more, namespace: default}}
spec:
  parentRef: {{name: cafe}}
  listeners:
    - {{name: more, port: {port}, protocol: HTTP}}
"""


async def test_added_and_removed_gateways_start_and_stop(run, cafe, conf):
    other = free_port()
    vgw_run = await run()
    await serves(cafe, "tea", "the first Gateway")
    (first,) = managers(vgw_run)
    (conf / "other.yaml").write_text(other_gateway(other))
    await serves(other, "coffee", "the second Gateway")
    assert len(managers(vgw_run)) == 2
    (conf / "other.yaml").unlink()
    await until_async(lambda: managers(vgw_run) == [first], "its end")
    assert (await ask(other, HOST)).status == 0
    assert (await ask(cafe, HOST)).answered_by == "tea"


async def test_recreated_gateway_serves_again(run, cafe, conf):
    vgw_run = await run()
    await vgw_run.wait_for_programmed()
    (conf / "gateway.yaml").unlink()
    await vgw_run.wait_for_message("was deleted")
    (conf / "gateway.yaml").write_text(gateway(cafe))
    await vgw_run.wait_for_message("stopped")
    await serves(cafe, "tea", "another one in its place")


async def test_port_moved_between_gateways_is_served_by_the_new_one(run, cafe, conf):
    other = free_port()
    (conf / "other.yaml").write_text(other_gateway(other))
    await run()
    await serves(cafe, "tea", "the first Gateway")
    await serves(other, "coffee", "the second Gateway")
    replace(conf / "gateway.yaml", gateway(free_port()))
    replace(conf / "other.yaml", other_gateway(other, cafe))
    await serves(cafe, "coffee", "the port at its new owner")
    assert (await ask(other, HOST)).answered_by == "coffee"


async def test_colliding_ports_set_a_condition(run, cafe, conf):
    (conf / "other.yaml").write_text(other_gateway(cafe))
    vgw_run = await run()
    await serves(cafe, "tea", "the first Gateway")
    await vgw_run.wait_for_message("PortUnavailable")


async def test_port_occupied_by_another_process_is_retried(run, cafe):
    with socket.socket() as occupant:
        occupant.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        occupant.bind(("0.0.0.0", cafe))
        occupant.listen()
        health = free_port()
        vgw_run = await run("--health-addr", f"127.0.0.1:{health}")
        reason = f"socket http-{cafe} on :{cafe}: Address already in use by process {os.getpid()} ("
        await vgw_run.wait_for_message(reason)
        ready = await ask(health, HOST, "/ready")
        assert ready.status == 503
        assert reason in ready.json["problems"][0]
        await attempts(health, 4)
        (line,) = [record["message"] for record in vgw_run.log if "Address already in use" in record["message"]]
        assert line.startswith("Gateway default/cafe: not Programmed")
        assert not any("stopped" in record["message"] for record in vgw_run.log)
    await serves(cafe, "tea", "the port, once it is free")


async def attempts(health: int, count: int) -> None:
    """Wait until so many attempts to start have failed."""

    async def failed() -> bool:
        metrics = (await ask(health, HOST, "/metrics")).body.decode()
        (number,) = re.findall(r'^vgw_faults_total\{gateway="default/cafe"\} (\d+)$', metrics, re.MULTILINE)
        return int(number) >= count

    await until_async(failed, f"{count} attempts")


@pytest.mark.usefixtures("cafe")
async def test_health_page_lists_serving_gateways(run, conf):
    health = free_port()
    vgw_run = await run("--health-addr", f"127.0.0.1:{health}")
    await status_is(health, "/health", 200, "the process lives")
    await status_is(health, "/ready", 200, "the Gateway serves")
    await vgw_run.wait_for_programmed()
    reported = (await ask(health, HOST, "/ready")).json
    assert reported["gateways"]["default/cafe"]["upToDate"]
    assert 'vgw_ready{gateway="default/cafe"} 1' in (await ask(health, HOST, "/metrics")).body.decode()
    (conf / "broken.yaml").write_text("spec: [\n")
    await vgw_run.wait_for_message(f"{conf}/broken.yaml:1: ")
    metrics = (await ask(health, HOST, "/metrics")).body.decode()
    assert 'vgw_reload_failures_total{gateway=""} 1' in metrics
    assert 'vgw_up_to_date{gateway=""} 0' in metrics
    reported = (await ask(health, HOST, "/ready")).json
    assert (reported["ready"], reported["upToDate"]) == (True, False)
    assert reported["problems"][0].startswith(f"{conf}/broken.yaml:1: ")
    (conf / "gateway.yaml").unlink()
    await status_is(health, "/ready", 503, "without a Gateway nothing serves")


ROUTE_SPEC = "HTTPRoute default/cafe (document 1): spec"


@pytest.mark.parametrize(
    ("mistake", "problem"),
    [
        (("port: 80", 'port: "80"'), f"7: {ROUTE_SPEC}.rules[0].backendRefs[0].port: expected an integer"),
        (("hostnames:", "hostname:"), f'6: {ROUTE_SPEC}.hostname: unknown field; did you mean "hostnames"?'),
        (("  hostnames:", " hostnames:"), "6: "),
    ],
    ids=["wrong type", "unknown field", "syntax"],
)
async def test_rejected_file_is_reported_to_machines_until_it_is_corrected(run, cafe, conf, mistake, problem):
    health = free_port()
    await run("--health-addr", f"127.0.0.1:{health}")
    await serves(cafe, "tea", "the first answer")
    assert await about_files(health) == ([], "1", "0")

    replace(conf / "route.yaml", route("coffee").replace(*mistake))

    async def is_rejected() -> bool:
        return await about_files(health) != ([], "1", "0")

    await until_async(is_rejected, "the file is rejected")
    (found,), up_to_date, failures = await about_files(health)
    assert found.startswith(f"{conf}/route.yaml:{problem}")
    assert (up_to_date, failures) == ("0", "1")
    assert (await ask(cafe, HOST)).answered_by == "tea"

    replace(conf / "route.yaml", route("coffee"))
    await serves(cafe, "coffee", "the correction")
    assert await about_files(health) == ([], "1", "1")


async def about_files(health: int) -> tuple[list[str], str, str]:
    """Return the problems in /ready, and of /metrics whether all files are in force and how often one was rejected."""
    page = (await ask(health, HOST, "/ready")).json
    metrics = (await ask(health, HOST, "/metrics")).body.decode()
    names = ("vgw_up_to_date", "vgw_reload_failures_total")
    up_to_date, failures = (re.findall(rf'^{name}{{gateway=""}} (\d+)$', metrics, re.MULTILINE)[0] for name in names)
    return page["problems"], up_to_date, failures


async def test_edited_user_vcl_is_loaded_and_invalid_vcl_keeps_the_last_good(run, cafe, conf):
    (conf / "class.yaml").write_text(USER_VCL_CLASS)
    (conf / "vcl.yaml").write_text(user_vcl("sub vcl_recv {", "  return (synth(418));", "}"))
    vgw_run = await run()
    await serves(cafe, 418, "user VCL")
    (conf / "vcl.yaml").write_text(user_vcl("sub vcl_recv {", "  return (nonsense);", "}"))
    await vgw_run.wait_for_message("Line 2")  # the user's own line
    assert (await ask(cafe, HOST)).status == 418
    (conf / "vcl.yaml").write_text(user_vcl("sub vcl_recv {", "  return (synth(419));", "}"))
    await serves(cafe, 419, "the correction")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_termination_signal_leaves_no_process_or_file(run, cafe, workdir, number):
    vgw_run = await run()
    await serves(cafe, "tea", "the first answer")
    assert len(working_in(workdir / "work")) > 1
    assert await vgw_run.stop(number) == 0
    assert not working_in(workdir / "work")


async def test_temporary_work_dir_is_removed_at_exit(conf, cafe, workdir):
    temporary = workdir / "tmp"
    temporary.mkdir(mode=0o755)
    async with vgw_run(conf, environment={"TMPDIR": str(temporary)}) as gateway:
        await serves(cafe, "tea", "the first answer")
        assert list(temporary.iterdir())
        assert await gateway.stop() == 0
    assert not list(temporary.iterdir())


async def test_second_instance_on_a_work_directory_exits_and_leaves_the_first_alone(run, cafe, workdir):
    first = await run()
    await serves(cafe, "tea", "the first answer")
    before, secret = managers(first), (workdir / "work" / "default.cafe" / "secret").read_bytes()
    second = await run()
    assert await second.process.wait() == 2
    await second.wait_for_message(f"--work-dir: {workdir}/work is in use by process {first.process.pid} (")
    assert (await ask(cafe, HOST)).answered_by == "tea"
    assert (managers(first), (workdir / "work" / "default.cafe" / "secret").read_bytes()) == (before, secret)


def test_missing_path_fails_at_once_with_a_message(workdir):
    command = [sys.executable, "-m", "varnish_gateway", "run", str(workdir / "nowhere")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == f"vgw: {workdir}/nowhere: no such file or directory\n"


async def test_sigterm_ends_a_kept_connection_with_its_next_response(run, cafe):
    vgw_run = await run()
    await serves(cafe, "tea", "the first answer")
    connection = Connection(cafe)
    assert (await connection.ask(HOST)).header("connection") == "keep-alive"
    vgw_run.process.send_signal(signal.SIGTERM)
    await vgw_run.wait_for_message("draining")

    async def is_asked_to_leave() -> bool:
        return (await connection.ask(HOST)).header("connection") == "close"

    await until_async(is_asked_to_leave, "the connection ends with a response")
    assert await vgw_run.process.wait() == 0
