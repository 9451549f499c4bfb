"""User VCL can't read private keys: a real varnishd inside its fence.

As root varnishd gives its worker and the VCL compiler users of their own. ``-j none`` leaves all of them the
same user as the chaperone and HAProxy, which is how they run in a pod: there, only the fence is between them.
"""

import os
from contextlib import asynccontextmanager

import pytest

from loopback import free_port
from support.http import client as http_client
from support.processes import program, working_in
from support.varnish.dataplane import ask, endpoints, must_serve, port_of, published, routing, running, user_vcl
from support.varnish.tls import pair, secure, tls
from varnish_gateway.chaperone.last_good import LastGood
from varnish_gateway.dataplane import assemble, events
from varnish_gateway.dataplane.change import Change
from varnish_gateway.dataplane.process import landlock
from varnish_gateway.dataplane.process.workdir import LAST_GOOD_DIRECTORY

SAME_USER = ("-j", "none")
JAILED = ()
KEY = "PRIVATE KEY"

needs_fence = pytest.mark.skipif(landlock.missing() is not None, reason="this kernel has no Landlock")


@asynccontextmanager
async def gateway(origins, arguments, **settings):
    """Give a data plane that serves HTTPS, the same user VCL for every test, and its last good configuration."""
    port = free_port()
    listen = f"ghost-reload=127.0.0.1:0,http;http-1=127.0.0.1:0,http;https-{port}=127.0.0.1:{port},https"
    async with running(listen, extra_args=arguments, **settings) as plane:
        last = LastGood(plane.settings.work_dir / LAST_GOOD_DIRECTORY, "n/gateway")
        plane.on_in_force(last.save)
        change = Change(
            vcl=user_vcl(reading("/etc/hostname")),
            routing=routing("tea"),
            slices=endpoints("tea", await origins.port("tea")),
            tls=tls(port, (pair("tea"), ["tea"])),
        )
        await must_serve(plane, change)
        assert (await http_client.ask(secure(port), "tea")).status == 200
        yield plane


def reading(path):
    return f'import std;\nsub vcl_deliver {{ set resp.http.Content = regsuball(std.fileread("{path}"), "\\s", " "); }}'


async def content_read_by_user_vcl(plane, path):
    """Return what std.fileread gives to user VCL: nothing if the worker can't read the file."""
    await must_serve(plane, Change(vcl=user_vcl(reading(path))))
    answer = await ask(port_of(plane))
    assert answer.status == 200
    return answer.header("Content")


def key_files(plane):
    """Return a key that HAProxy reads, and one of the last good configuration."""
    work_dir = plane.settings.work_dir
    tls_dir, last_dir = work_dir / "tls", work_dir / LAST_GOOD_DIRECTORY
    found = [next(path for path in each.glob("*.pem") if KEY in path.read_text()) for each in (tls_dir, last_dir)]
    assert all(path.stat().st_uid == os.geteuid() for path in found)
    return found


@pytest.mark.parametrize("arguments", [pytest.param(SAME_USER, marks=needs_fence), JAILED], ids=["same-user", "jailed"])
async def test_user_vcl_reads_system_files_but_no_key(origins, arguments):
    async with gateway(origins, arguments) as plane:
        assert await content_read_by_user_vcl(plane, "/etc/passwd")
        for path in key_files(plane):
            assert await content_read_by_user_vcl(plane, path) == ""


@pytest.mark.parametrize("arguments", [pytest.param(SAME_USER, marks=needs_fence), JAILED], ids=["same-user", "jailed"])
async def test_error_messages_of_the_compiler_show_no_key(origins, arguments):
    async with gateway(origins, arguments) as plane:
        for path in key_files(plane):
            outcome = await plane.apply(Change(vcl=user_vcl(f'include "{path}";')))
            assert len(outcome.problems) == 1
            assert KEY not in str(outcome.problems[0])
            assert "Cannot read file" in str(outcome.problems[0])


@needs_fence
async def test_user_vcl_reads_no_key_through_other_processes(origins):
    async with gateway(origins, SAME_USER) as plane:
        (key, _) = key_files(plane)
        haproxy = next(pid for pid in working_in(plane.settings.work_dir) if program(pid) == "haproxy")
        for path in (
            f"/proc/{os.getpid()}/root{key}",
            f"/proc/{haproxy}/root{key}",
            f"/proc/{haproxy}/cwd/tls/{key.name}",
        ):
            assert await content_read_by_user_vcl(plane, path) == ""


@needs_fence
async def test_user_vcl_can_not_learn_the_names_of_haproxys_sockets(origins):
    """A backend could send commands to a socket whose path it knows."""
    async with gateway(origins, SAME_USER) as plane:
        sockets = [*(plane.settings.work_dir / "tls").glob("*.sock")]
        assert {path.name.partition("-")[0] for path in sockets} == {"admin", "master"}
        names = {path.stem.rpartition("-")[2] for path in sockets}
        async with gateway(origins, SAME_USER) as other:
            assert names.isdisjoint(
                path.stem.rpartition("-")[2] for path in (other.settings.work_dir / "tls").glob("*.sock")
            )
        haproxy = next(pid for pid in working_in(plane.settings.work_dir) if program(pid) == "haproxy")
        for path in (f"/proc/{haproxy}/cmdline", "/proc/net/unix", f"{plane.settings.work_dir}/tls/haproxy.cfg"):
            outcome = await plane.apply(Change(vcl=user_vcl(f'include "{path}";')))
            assert "Cannot read file" in str(outcome.problems[0])


@needs_fence
async def test_user_vcl_reads_what_the_operator_of_the_machine_opens(origins, tmp_path, monkeypatch):
    data = tmp_path / "data"
    data.mkdir()
    (data / "closed.txt").write_text("closed")
    async with gateway(origins, SAME_USER) as plane:
        assert await content_read_by_user_vcl(plane, data / "closed.txt") == ""
    monkeypatch.setenv("VARNISHD_READABLE", f"/nowhere:{data}")
    async with gateway(origins, SAME_USER) as plane:
        assert await content_read_by_user_vcl(plane, data / "closed.txt") == "closed"


@needs_fence
async def test_user_vcl_reads_no_tokens_of_clients(origins, tmp_path, monkeypatch):
    for name in ("tokens.json", "data.txt"):
        (tmp_path / name).write_text("content")
    monkeypatch.setenv("VARNISHD_READABLE", str(tmp_path))
    async with gateway(origins, SAME_USER, invalidation_tokens=tmp_path / "tokens.json") as plane:
        assert await content_read_by_user_vcl(plane, tmp_path / "data.txt") == "content"
        assert await content_read_by_user_vcl(plane, tmp_path / "tokens.json") == ""


async def test_kernel_without_landlock_is_reported(monkeypatch):
    monkeypatch.setattr(assemble.landlock, "missing", lambda: "the kernel offers no Landlock")
    async with running() as plane:
        await must_serve(plane, Change(vcl=user_vcl("")))
        warning = "user VCL can read private keys and the pod's token: the kernel offers no Landlock"
        assert plane.served.warnings == (warning,)
        assert plane.served.up_to_date
        assert [event.sentence for event in published(plane, events.Unfenced)] == [warning]
