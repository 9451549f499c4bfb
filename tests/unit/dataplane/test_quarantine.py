import asyncio

import pytest

from varnish_gateway.dataplane.quarantine import COSTLY, ROUTINE, Quarantine, QuarantineDelays


async def rejected(quarantine, *things):
    """Return how long each is quarantined."""
    try:
        return [quarantine.reject(thing, "no") for thing in things]
    finally:
        quarantine.close()


async def test_repeated_rejection_doubles_the_delay_and_another_thing_starts_over():
    assert await rejected(Quarantine(print, ROUTINE), *"aaaaaaaab") == [10, 20, 40, 80, 160, 320, 600, 600, 10]
    costly = await rejected(Quarantine(print, COSTLY), *"a" * 20)
    assert (costly[0], costly[-1]) == (60, 86400)


async def test_delays_start_over_after_something_was_accepted():
    quarantine = Quarantine(print, ROUTINE)
    await rejected(quarantine, *"aa")
    quarantine.clear()
    assert quarantine.reason("a") is None
    assert await rejected(quarantine, "a") == [10]


async def test_only_the_rejected_thing_is_quarantined():
    quarantine = Quarantine(print, ROUTINE)
    await rejected(quarantine, "a")
    assert (quarantine.reason("a"), quarantine.reason("b")) == ("no", None)


@pytest.mark.parametrize(("released", "reason"), [("a", None), (None, None), ("b", "no")])
async def test_released_thing_may_be_tried_at_once_and_keeps_its_delay(released, reason):
    quarantine = Quarantine(print, ROUTINE)
    await rejected(quarantine, "a")
    quarantine.release(released)
    assert quarantine.reason("a") == reason
    assert await rejected(quarantine, "a") == [20]


async def test_quarantine_ends_by_itself_and_wakes():
    woken = asyncio.Event()
    quarantine = Quarantine(woken.set, QuarantineDelays(0.001, 1))
    quarantine.reject("a", "no")
    await asyncio.wait_for(woken.wait(), 5)
    assert quarantine.reason("a") is None
