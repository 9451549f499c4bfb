"""Limits on requests to the API server.

In:   requests that are ready to start.
Out:  when each may start: a token bucket for the rate, a limit in flight, delays between attempts.
"""

import asyncio
import random
import time
from collections.abc import Callable

from msgspec import Struct

from varnish_gateway.runtime.backoff import Backoff

FIRST_RETRY_SECONDS = 0.05
LAST_RETRY_SECONDS = 60.0
"""An API server in trouble recovers sooner when its clients ask rarely."""


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
        """Return whether a token is available now; take it if so."""
        if max(self._next, now - self._slack) > now:
            return False
        self.take(now)
        return True


class Turnstile:
    """Lets requests start within the limits."""

    def __init__(self, limits: Limits) -> None:
        self._bucket = Bucket(limits.per_second, limits.burst)
        self._free = asyncio.Semaphore(limits.in_flight)

    async def enter(self) -> float:
        """Wait until a request may start; return the seconds that the rate limit cost. ``leave`` must follow."""
        delay = self._bucket.take(time.monotonic())
        if delay:
            await asyncio.sleep(delay)
        await self._free.acquire()
        return delay

    def leave(self) -> None:
        self._free.release()


class RequestBackoff:
    """Delays between attempts of a request: the first retry is immediate, because most failures are short."""

    def __init__(self, jitter: Callable[[], float] = random.random) -> None:
        self._later = Backoff(FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS, jitter=jitter)
        self.failures = 0

    def reset(self) -> None:
        """Start over: an attempt succeeded."""
        self.failures = 0
        self._later.reset()

    def next(self, *, asked: float = 0.0) -> float:
        """Return the seconds to wait before the next attempt; ``asked`` is what the API server asked for."""
        self.failures += 1
        return self._later.next(asked=asked) if self.failures > 1 else self._later.asked_for(asked)


def spread(seconds: float, share: float) -> float:
    """Return seconds plus or minus a random share, so that clients spread their requests."""
    return seconds * (1 - share + 2 * share * random.random())  # noqa: S311 - no secret
