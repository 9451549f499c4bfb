"""What fails is tried again by itself, ever more rarely.

In:   faults of the world, and word when all is well.
Out:  a call of ``wake`` after a while; each fault is told on the bus.
"""

import asyncio
from collections.abc import Callable

from varnish_gateway.dataplane.events import Bus, Fault

FIRST_SECONDS = 0.1
LAST_SECONDS = 5.0


class Delays:
    """Each call of ``again`` waits twice as long as the one before: ``first`` seconds, and at most ``last``."""

    def __init__(self, wake: Callable[[], None], first: float, last: float) -> None:
        self._wake = wake
        self._first = self._seconds = first
        self._last = last
        self._timer: asyncio.TimerHandle | None = None

    def again(self) -> float:
        """Wake once, after the seconds that are returned."""
        delay, self._seconds = self._seconds, min(self._seconds * 2, self._last)
        self.cancel()
        self._timer = asyncio.get_running_loop().call_later(delay, self._wake)
        return delay

    def begin_anew(self) -> None:
        """Let the next delay be the first one."""
        self._seconds = self._first

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


class Retry:
    """For faults: they are over soon, or come again."""

    def __init__(self, bus: Bus, wake: Callable[[], None]) -> None:
        self._bus = bus
        self._delays = Delays(wake, FIRST_SECONDS, LAST_SECONDS)

    def later(self, fault: Exception) -> None:
        """Tell of a fault; wake after twice the time of before."""
        self._bus.publish(Fault(reason=str(fault), retry_seconds=self._delays.again()))

    def begin_anew(self) -> None:
        """Let the next fault be the first one."""
        self._delays.begin_anew()

    def cancel(self) -> None:
        self._delays.cancel()
