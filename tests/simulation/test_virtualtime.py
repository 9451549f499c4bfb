"""Virtual time passes like real time, without waiting."""

import asyncio
import time

import pytest

from support.simulation.virtualtime import Deadlock, in_virtual_time, now, run


@in_virtual_time
async def test_timers_fire_in_their_order_and_at_their_time():
    began, fired = now(), []

    async def fire(seconds: float) -> None:
        await asyncio.sleep(seconds)
        fired.append((seconds, round(now() - began, 6), round(time.monotonic() - began, 6)))

    await asyncio.gather(*(fire(seconds) for seconds in (86_400, 0.5, 3)))
    assert fired == [(0.5, 0.5, 0.5), (3, 3, 3), (86_400, 86_400, 86_400)]


def test_deadlock_raises_instead_of_hanging():
    with pytest.raises(Deadlock):
        run(asyncio.Event().wait())


def test_clock_is_restored_after_the_run():
    before = time.monotonic()
    run(asyncio.sleep(86_400))
    assert 0 <= time.monotonic() - before < 3_600
