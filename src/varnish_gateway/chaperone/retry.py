"""What fails for the world's sake is tried again by itself, ever more rarely.

In:   faults, and word when all is well.
Out:  a call of ``wake`` after a while; each fault is told on the bus.
"""

import asyncio
from collections.abc import Callable

from varnish_gateway.chaperone.events import Bus, Fault

FIRST_SECONDS = 0.1
LAST_SECONDS = 5.0


class Retry:
    """``first`` and ``last`` are the shortest and the longest delay."""

    def __init__(
        self, bus: Bus, wake: Callable[[], None], first: float | None = None, last: float | None = None
    ) -> None:
        self._bus = bus
        self._wake = wake
        self._first = self._seconds = FIRST_SECONDS if first is None else first
        self._last = LAST_SECONDS if last is None else last
        self._timer: asyncio.TimerHandle | None = None

    def later(self, fault: Exception) -> None:
        """Tell of a fault; wake after twice the time of before."""
        delay, self._seconds = self._seconds, min(self._seconds * 2, self._last)
        self._bus.publish(Fault(reason=str(fault), retry_seconds=delay))
        self.cancel()
        self._timer = asyncio.get_running_loop().call_later(delay, self._wake)

    def begin_anew(self) -> None:
        """Let the next fault be the first one."""
        self._seconds = self._first

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
