"""What of a data plane needs no varnishd."""

import pytest

from varnish_gateway.dataplane import dataplane, events
from varnish_gateway.dataplane.dataplane import DataPlane
from varnish_gateway.dataplane.process.sockets import parse_listen
from varnish_gateway.dataplane.settings import Settings
from varnish_gateway.dataplane.varnish.cli.answers import ListenAddress


@pytest.fixture
def steps(monkeypatch):
    """Collect the steps of a drain in their order, without their time."""
    taken = []

    async def sleep(seconds):
        taken.append(("accept", seconds))

    async def until_idle(ports, seconds):
        taken.append(("wait", ports, seconds))

    monkeypatch.setattr(dataplane.asyncio, "sleep", sleep)
    monkeypatch.setattr(dataplane.drain, "until_idle", until_idle)
    return taken


@pytest.fixture
async def data_plane(tmp_path, monkeypatch, steps):
    monkeypatch.setattr("varnish_gateway.dataplane.process.workdir.check_enterable", lambda *_: None)
    listen = parse_listen("ghost-reload=127.0.0.1:1969,http;http-80=:80,http")
    data_plane = DataPlane(Settings(work_dir=tmp_path, sockets=listen, drain_delay_seconds=5))
    data_plane.supervisor.child_running = True
    data_plane.supervisor.addresses = tuple(
        ListenAddress(name, "127.0.0.1", port) for name, port in (("ghost-reload", 1969), ("http-80", 80))
    )
    data_plane.bus.subscribe(lambda event: steps.append(("say", event)))
    return data_plane


async def test_a_drain_is_unready_then_accepts_then_waits_within_its_time(data_plane, steps):
    await data_plane.drain(25)
    assert not data_plane.served.ready
    assert data_plane.served.reason == "draining"
    unready = events.Ready(ready=False, reason="draining")
    assert steps == [("say", unready), ("say", events.Draining(seconds=25)), ("accept", 5), ("wait", {80}, 20)]


async def test_the_delay_is_a_part_of_the_whole(data_plane, steps):
    await data_plane.drain(3)
    assert steps[2:] == [("accept", 3), ("wait", {80}, 0)]


async def test_no_time_is_no_wait(data_plane, steps):
    await data_plane.drain(0)
    assert [step for step, *_ in steps] == ["say"]
    assert data_plane.served.reason == "draining"
