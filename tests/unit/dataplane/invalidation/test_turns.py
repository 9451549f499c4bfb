"""Turns of clients."""

import asyncio
from collections.abc import Callable

import pytest

from varnish_gateway.dataplane.invalidation.turns import AT_ONCE, PRESENT, Turns


@pytest.fixture
async def hold():
    """Give what takes turns of a client and holds them; ``began`` has the clients that have theirs."""
    turns, end = Turns(), asyncio.Event()

    async def one(client: str) -> None:
        async with turns.turn(client):
            start.began.append(client)
            await end.wait()

    async def start(client: str, number: int) -> list[asyncio.Task[None]]:
        tasks = [asyncio.create_task(one(client)) for _ in range(number)]
        await settled()
        return tasks

    start.began, start.turns, start.end = [], turns, end
    return start


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_client_has_few_turns_at_once_and_keeps_no_other_waiting(hold: Callable):
    greedy, modest = await hold("greedy", PRESENT), await hold("modest", 1)
    assert hold.began == ["greedy"] * AT_ONCE + ["modest"]
    assert [hold.turns.is_full(client) for client in ("greedy", "modest")] == [True, False]
    hold.end.set()
    await asyncio.gather(*greedy, *modest)
    assert hold.began.count("greedy") == PRESENT
    assert not hold.turns.is_full("greedy")


async def test_turn_of_a_request_that_is_cancelled_goes_to_the_next(hold: Callable):
    tasks = await hold("a", AT_ONCE + 2)
    for cancelled in (tasks[0], tasks[-1]):  # one that has a turn, one that waits
        cancelled.cancel()
        await asyncio.wait({cancelled})
    await settled()
    assert hold.began == ["a"] * (AT_ONCE + 1)
