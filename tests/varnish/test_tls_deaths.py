"""HAProxy dies in the middle of a change: it comes back with the desired certificates; nothing else stops."""

import asyncio
import os
import signal
import socket

import pytest

from loopback import free_port
from support.processes import children, program
from support.varnish.dataplane import FREE_PORTS, ask, must_serve, port_of, published, routing, running, until_published
from support.varnish.tls import both, certificate_of, https, pair, tls
from support.waiting import until_async
from varnish_gateway.dataplane.change import Change
from varnish_gateway.dataplane.events import Fault
from varnish_gateway.dataplane.tls import events, haproxy, terminator
from varnish_gateway.dataplane.tls.admin import AdminSocket
from varnish_gateway.emit.vcl import main_vcl


@pytest.fixture
async def serving(origins):
    async with https(origins) as (plane, port):
        yield plane, port


def kill(plane, victim):
    pid = plane.terminator.pid
    if victim == "worker":
        (pid,) = [child for child in children(pid) if program(child) == "haproxy"]
    os.kill(pid, signal.SIGKILL)


async def until_everything_serves(plane, port, certificate):
    await until_async(lambda: plane.served.up_to_date, "everything is in force")
    assert plane.served.ready
    assert await certificate_of(port, "tea") == certificate.der
    assert (await ask(port_of(plane))).answered_by == "tea"


@pytest.mark.parametrize("victim", ["worker", "master"])
@pytest.mark.parametrize("is_noticed", [True, False])
async def test_haproxy_killed_during_an_update_restarts_with_the_new_certificates(
    serving, monkeypatch, victim, is_noticed
):
    plane, port = serving
    do = AdminSocket.do

    async def die_first(admin, command, *more):
        if command.startswith("commit") and plane.terminator.pid is not None:
            monkeypatch.setattr(AdminSocket, "do", do)
            kill(plane, victim)
            if is_noticed:
                await until_published(plane, events.HaproxyExited)
        await do(admin, command, *more)

    monkeypatch.setattr(AdminSocket, "do", die_first)
    await plane.apply(Change(tls=tls(port, (pair("tea", 1), ["tea"]))))
    # The worker of a master that is dead accepts the certificates before it exits.
    await until_published(plane, events.HaproxyBack)
    await until_everything_serves(plane, port, pair("tea", 1))
    assert len(published(plane, events.HaproxyExited)) == len(published(plane, events.HaproxyBack)) == 1


@pytest.mark.parametrize("is_noticed", [True, False])
async def test_haproxy_killed_between_check_and_reload_is_reported_and_recovers(serving, monkeypatch, is_noticed):
    plane, port = serving
    check = haproxy.check

    async def die_after(work_dir):
        monkeypatch.setattr(haproxy, "check", check)
        await check(work_dir)
        kill(plane, "master")
        if is_noticed:
            await until_published(plane, events.HaproxyExited)

    monkeypatch.setattr(haproxy, "check", die_after)
    await plane.apply(Change(tls=tls(port, (pair("tea", 1), ["tea"]), clients="authority", insecure=True)))
    await until_everything_serves(plane, port, pair("tea", 1))


async def test_crash_looping_haproxy_restarts_with_growing_delays(serving, monkeypatch):
    plane, _ = serving
    for _ in range(3):
        backs = len(published(plane, events.HaproxyBack))
        kill(plane, "master")
        await until_async(lambda backs=backs: len(published(plane, events.HaproxyBack)) > backs, "HAProxy is back")
    assert [fault.retry_seconds for fault in published(plane, Fault)] == [0.1, 0.2, 0.4]
    monkeypatch.setattr(terminator, "STEADY_SECONDS", 0)
    kill(plane, "master")
    await until_async(lambda: len(published(plane, events.HaproxyBack)) > 3, "HAProxy is back")
    assert len(published(plane, Fault)) == 3, "one that lasted is started at once"


async def test_haproxy_killed_at_random_moments_ends_with_the_newest_certificates(serving):
    plane, port = serving
    for number in range(1, 11):
        changed = tls(port, (pair("tea", number), ["tea"]), clients="authority" if number % 2 else "", insecure=True)
        change = asyncio.create_task(plane.apply(Change(tls=changed)))
        await asyncio.sleep(number * 0.005)  # not a wait for anything: each time another moment
        deaths = len(published(plane, events.HaproxyExited)) + plane.terminator.service.running
        if plane.terminator.service.running:
            kill(plane, "master")
        await change
        await until_async(lambda deaths=deaths: len(published(plane, events.HaproxyExited)) >= deaths, "it is noticed")
        await until_everything_serves(plane, port, pair("tea", number))
    await must_serve(plane, Change(tls=tls(port, (pair("tea"), ["tea"]))))


async def test_configuration_that_cannot_restart_is_replaced_by_the_desired_one(origins, monkeypatch):
    """The port of a listener is taken while HAProxy is dead; then the listener is removed."""
    taken_port = free_port()
    launch = haproxy.launch
    with socket.socket() as taken:

        async def take_port_first(*arguments):
            monkeypatch.setattr(haproxy, "launch", launch)
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(("127.0.0.1", taken_port))
            taken.listen()
            return await launch(*arguments)

        async with https(origins, more_ports=[taken_port]) as (plane, port):
            alone = tls(port, (pair("tea"), ["tea"]))
            await must_serve(plane, Change(tls=both(alone, tls(taken_port, (pair("tea"), ["tea"])))))
            monkeypatch.setattr(haproxy, "launch", take_port_first)
            kill(plane, "master")
            await until_published(plane, Fault)
            assert not plane.served.ready
            await must_serve(plane, Change(tls=alone))
            await until_everything_serves(plane, port, pair("tea"))


async def test_missing_haproxy_is_named_in_the_error(monkeypatch, tmp_path):
    monkeypatch.setattr(haproxy, "PROGRAM", str(tmp_path / "haproxy"))
    port = free_port()
    async with running(f"{FREE_PORTS};https-{port}=127.0.0.1:{port},https") as plane:
        change = Change(vcl=main_vcl(), routing=routing("tea"), tls=tls(port, (pair("tea"), ["tea"])))
        outcome = await plane.apply(change)
        assert [*map(str, outcome.problems)] == ["HAProxy, which terminates TLS, is not installed or not on PATH"]
