"""How much we ask of the API server.

In:   requests that want to begin.
Out:  when each may: a token bucket for the rate, a number in flight, delays between attempts.
"""

import asyncio
import random
import time
from collections.abc import Callable

from msgspec import Struct


class Limits(Struct, frozen=True):
    """Bounds for one client. Watches don't count."""

    per_second: float = 500
    burst: int = 1000
    in_flight: int = 32
    attempts: int = 5
    request_seconds: float = 30.0


class Bucket:
    """A token bucket. Pure: time is an argument."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._gap = 1 / per_second
        self._slack = (burst - 1) * self._gap
        self._next = float("-inf")

    def take(self, now: float) -> float:
        """Take a token, and return how long to wait until it may be used."""
        due = max(self._next, now - self._slack)
        self._next = due + self._gap
        return max(0.0, due - now)

    def allows(self, now: float) -> bool:
        """Tell whether a token is there now; take it if so."""
        if max(self._next, now - self._slack) > now:
            return False
        self.take(now)
        return True


class Turnstile:
    """Lets requests begin one by one, within the limits."""

    def __init__(self, limits: Limits) -> None:
        self._bucket = Bucket(limits.per_second, limits.burst)
        self._free = asyncio.Semaphore(limits.in_flight)

    async def enter(self) -> float:
        """Wait for our turn; return the seconds that the rate limit took. ``leave`` has to follow."""
        delay = self._bucket.take(time.monotonic())
        if delay:
            await asyncio.sleep(delay)
        await self._free.acquire()
        return delay

    def leave(self) -> None:
        self._free.release()


class Backoff:
    """Growing delays with jitter; the first retry is at once."""

    def __init__(self, first: float = 0.05, most: float = 5.0, chance: Callable[[], float] = random.random) -> None:
        self._first = first
        self._most = most
        self._chance = chance
        self.failures = 0

    def reset(self) -> None:
        self.failures = 0

    def next(self) -> float:
        """Return how long to wait before the next attempt."""
        self.failures += 1
        if self.failures == 1:
            return 0.0
        whole = min(self._most, self._first * 2.0 ** min(self.failures - 2, 30))
        return whole * (0.5 + self._chance() / 2)


def spread(seconds: float, share: float) -> float:
    """Return seconds, more or less by a share of them: not everybody asks at the same moment."""
    return seconds * (1 - share + 2 * share * random.random())  # noqa: S311 - no secret
