"""Draining a data plane, with collaborators that record what happens."""

import asyncio
from types import SimpleNamespace

import pytest

from varnish_gateway.dataplane import events
from varnish_gateway.dataplane.collaborators import Collaborators
from varnish_gateway.dataplane.dataplane import DataPlane
from varnish_gateway.dataplane.desired import DesiredConfiguration
from varnish_gateway.dataplane.process.sockets import parse_listen
from varnish_gateway.dataplane.settings import Settings
from varnish_gateway.dataplane.varnish.cli.answers import ListenAddress


class Terminator:
    """Serves port 443 until it finishes."""

    task = in_force = last_good = None
    problems, unready_reason, is_busy, ports = (), "", False, {443}

    def __init__(self, steps):
        self._steps = steps

    def subscribe(self, on_change): ...

    def open(self): ...

    def finish(self):
        self._steps.append(("finish TLS",))


@pytest.fixture
def steps():
    """Collect the steps of a drain in their order, without their time."""
    return []


@pytest.fixture
def data_plane(tmp_path, steps):
    listen = parse_listen("ghost-reload=127.0.0.1:1969,http;http-80=:80,http")
    settings = Settings(work_dir=tmp_path, sockets=listen, drain_delay_seconds=5)
    addresses = [ListenAddress(name, "127.0.0.1", port) for name, port in (("ghost-reload", 1969), ("http-80", 80))]

    async def sleep(seconds):
        steps.append(("accept", seconds))

    async def until_idle(ports, seconds):
        steps.append(("wait", ports, seconds))

    parts = Collaborators(
        bus=events.Bus(),
        work=asyncio.Event(),
        desired=DesiredConfiguration(listen, ()),
        admin=None,
        supervisor=SimpleNamespace(
            child_running=True, running=True, addresses=addresses, reload_port=1969, warnings=()
        ),
        vcl=SimpleNamespace(active="vgw-1", last_good="vcl 4.1;"),
        ghost=SimpleNamespace(last_good=None),
        resolver=None,
        terminator=Terminator(steps),
        retry=None,
        sleep=sleep,
        until_idle=until_idle,
    )
    data_plane = DataPlane(settings, parts)
    data_plane.bus.subscribe(lambda event: steps.append(("publish", event)))
    return data_plane


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
