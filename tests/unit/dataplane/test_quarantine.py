import asyncio

import pytest

from varnish_gateway.dataplane import quarantine
from varnish_gateway.dataplane.quarantine import Refused


async def noted(refusals, *things):
    """Return how long each is left alone."""
    try:
        return [refusals.note(thing, "no") for thing in things]
    finally:
        refusals.close()


async def test_the_same_is_left_alone_ever_longer_and_another_begins_anew():
    assert await noted(Refused(print), *"aaaaaaaab") == [10, 20, 40, 80, 160, 320, 600, 600, 10]
    costly = await noted(Refused(print, costly=True), *"a" * 20)
    assert (costly[0], costly[-1]) == (60, 86400)


async def test_it_begins_anew_after_something_was_accepted():
    refusals = Refused(print)
    await noted(refusals, *"aa")
    refusals.clear()
    assert refusals.why("a") is None
    assert await noted(refusals, "a") == [10]


async def test_only_what_was_refused_is_left_alone():
    refusals = Refused(print)
    await noted(refusals, "a")
    assert (refusals.why("a"), refusals.why("b")) == ("no", None)


@pytest.mark.parametrize(("forgiven", "why"), [("a", None), (None, None), ("b", "no")])
async def test_what_is_forgiven_may_be_tried_at_once(forgiven, why):
    refusals = Refused(print)
    await noted(refusals, "a")
    refusals.forgive(forgiven)
    assert refusals.why("a") == why
    assert await noted(refusals, "a") == [20]


async def test_a_refusal_is_over_by_itself(monkeypatch):
    monkeypatch.setattr(quarantine, "FIRST_SECONDS", 0.001)
    woken = asyncio.Event()
    refusals = Refused(woken.set)
    refusals.note("a", "no")
    await asyncio.wait_for(woken.wait(), 5)
    assert refusals.why("a") is None
