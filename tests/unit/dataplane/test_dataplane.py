"""Readiness and draining of a data plane, with collaborators that record what happens."""

import asyncio
from types import SimpleNamespace

import pytest

from support.http.canned import answering
from varnish_gateway.dataplane import events
from varnish_gateway.dataplane.change import Change
from varnish_gateway.dataplane.collaborators import Collaborators
from varnish_gateway.dataplane.dataplane import DataPlane
from varnish_gateway.dataplane.desired import DesiredConfiguration
from varnish_gateway.dataplane.process.sockets import parse_listen
from varnish_gateway.dataplane.settings import Settings
from varnish_gateway.dataplane.varnish.cli.answers import ListenAddress
from varnish_gateway.ir.capabilities import ALL, LATER_PORTS
from varnish_gateway.ir.invalidation import Invalidation, InvalidationTarget

START = "ghost-reload=127.0.0.1:1969,http;http-80=:80,http"


class Terminator:
    """Serves port 443 until it finishes."""

    task = in_force = last_good = None
    problems, unready_reason, is_busy, ports, later_sockets, closed = (), "", False, {443}, (), {}
    has_tried_later, deferred = False, {}

    def __init__(self, steps):
        self._steps = steps

    def subscribe(self, on_change):
        self.conclude = on_change

    def open(self): ...

    def finish(self):
        self._steps.append(("finish TLS",))


@pytest.fixture
def steps():
    """Collect the steps of a drain in their order, without their time."""
    return []


@pytest.fixture
def data_plane(tmp_path, steps):
    return assembled(tmp_path, steps)[0]


def assembled(tmp_path, steps, *, opens_later=False):
    listen = parse_listen(START)
    settings = Settings(work_dir=tmp_path, sockets=listen, drain_delay_seconds=5)
    addresses = [ListenAddress(name, "127.0.0.1", port) for name, port in (("ghost-reload", 1969), ("http-80", 80))]

    now = [1_000_000.0]

    async def sleep(seconds):
        steps.append(("accept", seconds))
        now[0] += seconds

    async def until_idle(ports, seconds):
        steps.append(("wait", ports, seconds))

    parts = Collaborators(
        bus=events.Bus(),
        work=asyncio.Event(),
        desired=DesiredConfiguration(listen, (), opens_later=opens_later),
        admin=None,
        supervisor=SimpleNamespace(
            child_running=True, running=True, addresses=addresses, reload_port=1969, warnings=()
        ),
        vcl=SimpleNamespace(active="vgw-1", last_good="vcl 4.1;"),
        ghost=SimpleNamespace(last_good=None),
        resolver=None,
        terminator=Terminator(steps),
        retry=None,
        clock=lambda: now[0],
        sleep=sleep,
        until_idle=until_idle,
    )
    data_plane = DataPlane(settings, parts)
    data_plane.bus.subscribe(lambda event: steps.append(("publish", event)))
    return data_plane, parts


async def test_drain_becomes_unready_then_accepts_then_waits_within_its_time(data_plane, steps):
    await data_plane.drain(25)
    assert not data_plane.served.ready
    assert data_plane.served.reason == "draining"
    unready = events.Ready(ready=False, reason="draining")
    assert steps == [
        ("publish", unready),
        ("publish", events.Draining(seconds=25)),
        ("accept", 5),
        ("finish TLS",),
        ("wait", {80, 443}, 20),
    ]


async def test_drain_shorter_than_its_delay_accepts_all_the_time(data_plane, steps):
    await data_plane.drain(3)
    assert steps[2:] == [("accept", 3), ("finish TLS",), ("wait", {80, 443}, 0)]


async def test_drain_of_no_seconds_only_becomes_unready(data_plane, steps):
    await data_plane.drain(0)
    assert [step for step, *_ in steps] == ["publish"]
    assert data_plane.served.reason == "draining"


LATER = Change(sockets=parse_listen(f"{START};http-8080=:8080,http"))


async def test_starting_data_plane_is_unready_until_its_later_ports_were_tried(tmp_path, steps):
    data_plane, parts = assembled(tmp_path, steps, opens_later=True)
    parts.desired.update(LATER)
    parts.terminator.conclude()
    assert data_plane.served.reason == "ports of its listeners are not open yet"
    assert steps == [], "nothing is published before the result"
    parts.terminator.has_tried_later = True
    parts.terminator.conclude()
    assert data_plane.served.ready
    assert steps == [("publish", events.Ready(ready=True, reason=""))]


async def test_ready_data_plane_stays_so_while_it_opens_a_port(tmp_path, steps):
    data_plane, parts = assembled(tmp_path, steps, opens_later=True)
    parts.terminator.conclude()
    parts.desired.update(LATER)
    assert data_plane.served.ready


async def test_only_a_data_plane_that_opens_ports_reports_that(tmp_path, steps):
    for opens_later, expected in ((True, ALL), (False, ALL - {LATER_PORTS.name})):
        data_plane, _ = assembled(tmp_path, steps, opens_later=opens_later)
        assert set(data_plane.served.capabilities) == expected


async def test_invalidation_is_published_with_its_client(tmp_path, steps):
    data_plane, parts = assembled(tmp_path, steps)
    asked = Invalidation(targets=(InvalidationTarget(host="a"), InvalidationTarget(everything=True)), mode="soft")
    async with answering(b'HTTP/1.1 200 OK\r\n\r\n{"objects":[3,4]}') as ghost:
        parts.supervisor.reload_port = ghost.port
        assert await data_plane.invalidate(asked, "ci") == (3, 4)
    assert steps == [("publish", events.Invalidated(client="ci", mode="soft", targets=2, objects=7))]


async def test_data_plane_without_a_vcl_holds_no_objects(tmp_path, steps):
    data_plane, parts = assembled(tmp_path, steps)
    assert data_plane.may_hold_objects
    parts.vcl.active = None
    assert not data_plane.may_hold_objects
