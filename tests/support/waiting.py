"""Poll for a condition, with a deadline."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

TIMEOUT = 20.0
GAP = 0.01

T = TypeVar("T")


def until(look: Callable[[], T], what: str = "the condition holds", seconds: float = TIMEOUT) -> T:
    """Return the first true value of ``look``; fail after so many seconds."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(GAP)
    return found


async def until_async(
    look: Callable[[], Awaitable[T] | T],
    what: str = "the condition holds",
    seconds: float = TIMEOUT,
    gap: float = GAP,
) -> T:
    """Return the first true value of ``look``; fail after so many seconds. It looks again after each gap."""
    deadline = time.monotonic() + seconds
    while not (found := await _value(look())):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        await asyncio.sleep(gap)
    return found


async def _value(found: Awaitable[T] | T) -> T:
    return await found if isinstance(found, Awaitable) else found
