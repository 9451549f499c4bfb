"""Retry after faults: a process that died, a port that is taken, a connection that broke.

In:   faults, and ``reset`` once everything works.
Out:  a call of ``wake`` after a growing delay; the bus publishes each fault, and logs a repeated one once.
"""

import asyncio
from collections.abc import Callable

from varnish_gateway.dataplane.events import Bus, Fault
from varnish_gateway.runtime.backoff import Backoff

FIRST_SECONDS = 0.1
LAST_SECONDS = 5.0


class RetryTimer:
    """One timer. Each ``schedule`` replaces the pending one and waits longer, up to ``last`` seconds."""

    def __init__(self, wake: Callable[[], None], first: float, last: float) -> None:
        self._wake = wake
        self._backoff = Backoff(first, last)
        self._timer: asyncio.TimerHandle | None = None

    def schedule(self) -> float:
        """Call ``wake`` once, after the returned seconds."""
        delay = self._backoff.next()
        self.cancel()
        self._timer = asyncio.get_running_loop().call_later(delay, self._wake)
        return delay

    def reset(self) -> None:
        """Start over with the first delay."""
        self._backoff.reset()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


class FaultRetry:
    """Publishes faults and schedules the next attempt."""

    def __init__(
        self, bus: Bus, wake: Callable[[], None], *, first: float = FIRST_SECONDS, last: float = LAST_SECONDS
    ) -> None:
        self._bus = bus
        self._timer = RetryTimer(wake, first, last)
        self._reason: str | None = None

    def later(self, fault: Exception) -> None:
        """Publish a fault; wake after a delay twice as long as the last one."""
        reason, before = str(fault), self._reason
        self._reason = reason
        delay = self._timer.schedule()
        self._bus.publish(Fault(reason=reason, retry_seconds=delay, is_repeated=reason == before))

    def reset(self) -> None:
        """Start over with the first delay: an attempt succeeded."""
        self._reason = None
        self._timer.reset()

    def cancel(self) -> None:
        self._timer.cancel()
