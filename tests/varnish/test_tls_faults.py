"""TLS when things go wrong: deaths of HAProxy, slow and hostile clients, ports that are taken, drains."""

import asyncio
import contextlib
import os
import signal
import socket
import time

import h2.config
import h2.connection
import h2.errors
import pytest

from loopback import free_port
from support.http import client as http_client
from support.http.load import under_load
from support.processes import children, program, working_in
from support.varnish.dataplane import (
    FREE_PORTS,
    ask,
    endpoints,
    must_serve,
    port_of,
    published,
    routing,
    running,
    until_published,
)
from support.varnish.tls import begin_request, both, certificate_of, end_request, finish, https, pair, secure, tls
from support.waiting import until_async
from varnish_gateway import errors
from varnish_gateway.dataplane import quarantine
from varnish_gateway.dataplane.change import Change
from varnish_gateway.dataplane.events import ChildBack
from varnish_gateway.dataplane.quarantine import QuarantineDelays
from varnish_gateway.dataplane.tls import events
from varnish_gateway.dataplane.tls import haproxy as haproxy_program
from varnish_gateway.dataplane.tls.haproxy import Haproxy
from varnish_gateway.emit import haproxy
from varnish_gateway.emit.vcl import main_vcl

TEA = {"tea": frozenset(["tea"])}
BACK_SECONDS = 10.0
"""It takes a fraction of a second; this is for a busy machine."""


@pytest.fixture
async def serving(origins):
    async with https(origins) as (plane, port):
        yield plane, port


def worker_of(plane):
    (worker,) = [pid for pid in children(plane.terminator.pid) if program(pid) == "haproxy"]
    return worker


@pytest.mark.parametrize("victim", ["worker", "master"])
async def test_haproxy_killed_under_load_restarts_and_plain_listeners_keep_serving(serving, victim):
    plane, port = serving
    await must_serve(plane, Change(tls=tls(port, (pair("tea", 1), ["tea"]), (pair("milk"), ["milk"]))))
    async with under_load(port_of(plane), TEA, connections=3) as plain, under_load(secure(port), TEA, 3) as load:
        await until_async(lambda: load.answered > 20, "there is load")
        killed = time.monotonic()
        os.kill(worker_of(plane) if victim == "worker" else plane.terminator.pid, signal.SIGKILL)
        await until_published(plane, events.HaproxyBack)
        answered = load.answered
        await until_async(lambda: load.answered > answered + 20, "there is load again")
    assert (plain.failed, plain.wrong, load.wrong) == ([], [], [])
    assert max((began for began, _ in load.failed), default=killed) < killed + BACK_SECONDS
    (back,) = published(plane, events.HaproxyBack)
    assert back.seconds < BACK_SECONDS
    assert plane.served.ready
    assert await certificate_of(port, "tea") == pair("tea", 1).der
    assert await certificate_of(port, "milk") == pair("milk").der
    assert len(published(plane, events.HaproxyExited)) == 1


async def test_changes_while_haproxy_is_down_apply_at_its_restart(serving):
    plane, port = serving
    os.kill(plane.terminator.pid, signal.SIGKILL)
    await until_published(plane, events.HaproxyExited)
    await must_serve(plane, Change(tls=tls(port, (pair("tea", 2), ["tea"]))))
    assert await certificate_of(port, "tea") == pair("tea", 2).der


async def test_a_port_that_is_taken_leaves_plain_listeners_and_is_tried_again(origins):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        async with running(f"{FREE_PORTS};https-{port}=127.0.0.1:{port},https") as plane:
            slices = endpoints("tea", await origins.port("tea"))
            change = Change(vcl=main_vcl(), routing=routing("tea"), slices=slices, tls=tls(port, (pair("tea"), ["*"])))
            outcome = await plane.apply(change)
            assert f"socket https-{port} on 127.0.0.1:{port}: Address already in use" in str(outcome.problems[0])
            assert (plane.served.ready, plane.served.reason) == (False, "HAProxy does not run")
            assert (await ask(port_of(plane))).answered_by == "tea"
            taken.close()
            await until_async(lambda: plane.served.up_to_date, "everything is in force")
            assert plane.served.ready
            assert (await http_client.ask(secure(port), "tea")).answered_by == "tea"


async def test_tls_clients_get_5xx_while_varnishd_restarts(serving):
    plane, port = serving
    async with under_load(secure(port), TEA, connections=2) as load:
        await until_async(lambda: load.answered > 10, "there is load")
        os.kill((await plane.admin.pid()).worker, signal.SIGKILL)
        await until_published(plane, ChildBack)
        answered = load.answered
        await until_async(lambda: load.answered > answered + 10, "there is load again")
    assert len(load.failed) <= 2, "what it was at work on is lost"
    assert all(" 50" in wrong for wrong in load.wrong)


# -- clients that mean no good --------------------------------------------------------------


async def test_slow_clients_do_not_starve_others(serving):
    """Hundreds of connections that never finish their head, in plain TLS and before it."""
    plane, port = serving
    where = secure(port)
    slow = [await asyncio.open_connection("127.0.0.1", port) for _ in range(200)]
    slow += [await http_client.connect(where) for _ in range(100)]
    senders = [writer for _, writer in slow[200:]]
    drips = asyncio.create_task(_drip(senders))
    try:
        async with under_load(where, TEA, connections=3) as load:
            await until_async(lambda: load.answered > 200, "others are served")
        assert (load.failed, load.wrong) == ([], [])
        assert (await ask(port_of(plane))).answered_by == "tea"
        # They are cut off after their time, however little they keep sending.
        async with asyncio.timeout(40):
            answers = await asyncio.gather(*(reader.read() for reader, _ in slow[200:]), return_exceptions=True)
        assert all(isinstance(answer, bytes | ConnectionError) for answer in answers)
        answered = [answer for answer in answers if isinstance(answer, bytes) and answer]
        assert answered
        assert all(b"408" in answer for answer in answered)
    finally:
        await finish(drips)
        for _, writer in slow:
            writer.transport.abort()


async def _drip(writers):
    with contextlib.suppress(ConnectionError):
        for writer in writers:
            writer.write(b"GET / HTTP/1.1\r\nHost: tea\r\n")
        while True:
            await asyncio.sleep(0.5)
            for writer in writers:
                writer.write(b"X: y\r\n")


async def test_a_rapid_reset_does_not_starve_others(serving):
    plane, port = serving
    attack = [asyncio.create_task(_reset_forever(port)) for _ in range(2)]
    try:
        async with under_load(secure(port), TEA, 3) as load, under_load(port_of(plane), TEA, 3) as plain:
            deadline = time.monotonic() + 4
            slowest = 0.0
            while time.monotonic() < deadline:
                began, answered = time.monotonic(), load.answered
                await until_async(lambda: load.answered > answered + 3, "others are served")  # noqa: B023
                slowest = max(slowest, time.monotonic() - began)
        assert (load.failed, load.wrong, plain.failed, plain.wrong) == ([], [], [], [])
        assert slowest < BACK_SECONDS
        assert all(not task.done() for task in attack), "the attack went on all the time"
    finally:
        await finish(*attack)


async def _reset_forever(port):
    """Open streams and reset them at once, on one connection after another."""
    while True:
        with contextlib.suppress(ConnectionError, h2.exceptions.ProtocolError):
            reader, writer = await http_client.connect(secure(port, alpn=["h2"]))
            try:
                await _reset_streams(reader, writer)
            finally:
                writer.transport.abort()


async def _reset_streams(reader, writer):
    connection = h2.connection.H2Connection(h2.config.H2Configuration())
    connection.initiate_connection()
    head = [(":method", "GET"), (":scheme", "https"), (":path", "/"), (":authority", "tea")]
    for stream in range(1, 20001, 2):
        connection.send_headers(stream, head, end_stream=True)
        connection.reset_stream(stream, h2.errors.ErrorCodes.CANCEL)
        if stream % 100 == 1:
            writer.write(connection.data_to_send())
            await writer.drain()
            await asyncio.sleep(0)
            if reader.at_eof():
                return


# -- the end --------------------------------------------------------------------------------


async def test_drain_finishes_requests_and_accepts_no_new_connections(serving):
    plane, port = serving
    reader, writer = await begin_request(secure(port))
    idle = http_client.Connection(secure(port))
    assert (await idle.ask("tea")).answered_by == "tea"
    stopping = asyncio.create_task(plane.stop(10))
    await until_async(lambda: plane.terminator.is_stopping, "the drain has begun")

    async def is_closed():
        with contextlib.suppress(ConnectionRefusedError):
            await certificate_of(port, "tea")
            return False
        return True

    await until_async(is_closed, "new connections are refused")
    # A connection that was idle gets its answer, and is asked to go.
    assert (await idle.ask("tea")).header("connection") == "close"
    assert not stopping.done()
    assert (await end_request(reader, writer)).startswith(b"HTTP/1.1 200")
    await stopping


async def test_drain_lasts_until_requests_finish(origins, monkeypatch):
    """However little time workers have after a reload."""
    monkeypatch.setattr(haproxy, "FINISH_SECONDS", 1)
    async with https(origins) as (plane, port):
        reader, writer = await begin_request(secure(port))
        stopping = asyncio.create_task(plane.stop(10))
        await until_async(lambda: plane.terminator.is_stopping, "the drain has begun")
        await asyncio.sleep(2)  # this is what is tested: time goes by
        assert (await end_request(reader, writer)).startswith(b"HTTP/1.1 200")
        await stopping


async def test_workers_older_than_the_reload_limit_are_terminated(origins, monkeypatch):
    monkeypatch.setattr(haproxy, "MOST_FORMER_WORKERS", 2)
    async with https(origins) as (plane, port):
        held = [await begin_request(secure(port))]
        for number in range(1, 4):
            authority = f"authority {number}"
            await must_serve(plane, Change(tls=tls(port, (pair("tea"), ["tea"]), clients=authority, insecure=True)))
            held.append(await begin_request(secure(port)))
        (oldest, _), *others = held
        async with asyncio.timeout(10):
            assert await oldest.read() == b""
        for reader, writer in others:
            assert (await end_request(reader, writer)).startswith(b"HTTP/1.1 200")


async def test_stop_leaves_no_haproxy_process(serving):
    plane, _ = serving
    pids = [plane.terminator.pid, worker_of(plane)]
    await plane.stop(0)
    assert not working_in(plane.settings.work_dir) & set(pids)


async def test_late_reload_of_a_withdrawn_change_is_reverted(origins, monkeypatch):
    other = free_port()
    async with https(origins, more_ports=[other]) as (plane, port):
        serves = Haproxy.serves

        async def too_late(haproxy, admin):
            await serves(haproxy, admin)
            raise errors.ChildExited("HAProxy does not serve")

        both_ports = both(tls(port, (pair("tea"), ["tea"])), tls(other, (pair("tea"), ["tea"])))
        with monkeypatch.context() as patched:
            patched.setattr(Haproxy, "serves", too_late)
            assert not (await plane.apply(Change(tls=both_ports))).serves
        await must_serve(plane, Change(tls=tls(port, (pair("tea"), ["tea"]))))
        await until_async(lambda: not is_open(other), "the port that was taken back is closed")
        assert await certificate_of(port, "tea") == pair("tea").der


def is_open(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("end", ["kill -9 $$", "exit 1"])
async def test_transient_check_failure_is_retried(origins, monkeypatch, tmp_path, end):
    monkeypatch.setattr(quarantine, "ROUTINE", QuarantineDelays(0.5, 600))
    program, flag = tmp_path / "haproxy", tmp_path / "flag"
    program.write_text(f'#!/bin/sh\n[ "$1" = -c ] && rm {flag} 2>/dev/null && {end}\nexec haproxy "$@"\n')
    program.chmod(0o755)
    monkeypatch.setattr(haproxy_program, "PROGRAM", str(program))
    other = free_port()
    async with https(origins, more_ports=[other]) as (plane, port):
        flag.touch()
        both_ports = both(tls(port, (pair("tea"), ["tea"])), tls(other, (pair("milk"), ["milk"])))
        assert not (await plane.apply(Change(tls=both_ports))).serves
        await until_async(lambda: plane.served.up_to_date, "it serves after all")
        assert await certificate_of(other, "milk") == pair("milk").der


async def test_unusable_certificate_leaves_served_certificates_untouched(serving):
    plane, port = serving
    kept = []
    plane.on_in_force(kept.append)
    desired = tls(port, (pair("tea", 1), ["tea"]), (b"nonsense", ["milk"]))
    assert not (await plane.apply(Change(tls=desired))).serves
    (certificate,) = {certificate.file for certificate in kept[-1].tls.ports[0].certificates}
    assert certificate in kept[-1].tls.files
    assert pair("tea", 1).certificate in kept[-1].tls.files[certificate]
