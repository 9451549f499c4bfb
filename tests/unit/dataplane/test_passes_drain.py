"""Passes of a data plane that drains, with fakes for varnishd and ghost."""

import asyncio

import pytest

from support.varnish.fake_varnish import apply, events_of, routes
from varnish_gateway.dataplane import events


class Clock:
    """Advances when a drain waits."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    async def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def waiting(clock) -> dict:
    return {
        "clock": lambda: clock.now,
        "sleep": clock.wait,
        "until_idle": lambda _, seconds: clock.wait(seconds),
    }


async def until_ghost_drains(plane) -> None:
    async with asyncio.timeout(5):
        while not plane.supervisor.is_draining:
            await asyncio.sleep(0.01)


async def test_drain_has_ghost_end_connections(plane):
    await apply(plane, vcl="one", routing=routes("a"))
    assert not plane.supervisor.is_draining
    plane.start_draining()
    await until_ghost_drains(plane)
    assert plane.served.reason == "draining"


async def test_worker_that_restarts_during_a_drain_ends_connections_too(plane):
    await apply(plane, vcl="one", routing=routes("a"))
    plane.start_draining()
    await until_ghost_drains(plane)
    plane.supervisor.lose_worker()
    assert (await apply(plane)).serves
    assert plane.supervisor.is_draining


async def test_drain_that_ghost_does_not_confirm_is_retried(plane):
    await apply(plane, vcl="one", routing=routes("a"))
    plane.supervisor.deaf_to_drains = 2
    plane.start_draining()
    await until_ghost_drains(plane)
    assert "answered 500 to the drain" in events_of(plane, events.Fault)[0].reason


async def test_drain_while_a_pass_starts_the_worker_waits_for_its_clients(plane, parts):
    _, collaborators = parts
    collaborators.supervisor.compiling.clear()
    applying = asyncio.create_task(apply(plane, vcl="one", routing=routes("a")))
    await collaborators.supervisor.loaded.wait()
    draining = asyncio.create_task(plane.drain(1))
    while plane.served.reason != "draining":
        await asyncio.sleep(0)
    collaborators.supervisor.compiling.set()
    await asyncio.gather(applying, draining)
    assert events_of(plane, events.Draining)


async def test_drain_takes_no_longer_than_its_time_when_a_pass_takes_most_of_it(plane, parts, clock):
    varnish = parts[1].supervisor
    varnish.compiling.clear()
    applying = asyncio.create_task(apply(plane, vcl="one", routing=routes("a")))
    await varnish.loaded.wait()
    draining = asyncio.create_task(plane.drain(25))
    while plane.served.reason != "draining":
        await asyncio.sleep(0)
    clock.now += 18
    varnish.compiling.set()
    await asyncio.gather(applying, draining)
    assert [event.seconds for event in events_of(plane, events.Draining)] == [7]
    assert clock.waits == [0, 7]


async def test_drain_without_a_worker_ends_with_the_pass(plane):
    plane.supervisor.unsound = "one"
    assert not (await apply(plane, vcl="one", routing=routes("a"))).serves
    await plane.drain(1)
    assert not events_of(plane, events.Draining)
