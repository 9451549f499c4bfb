"""Quarantine: what was rejected is not retried until it changes or a delay passes.

In:   a rejected thing, and the reason.
Out:  the reason, for as long as the thing is quarantined; then a call of ``wake``.

Transient failures (an OOM-killed compiler, a DNS outage, a file that could not be opened) can't be
told apart from invalid VCL or invalid routes, so every rejection is retried: after seconds at
first, then ever more rarely.
"""

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from varnish_gateway.dataplane.retry import RetryTimer

Thing = TypeVar("Thing")


class QuarantineDelays(NamedTuple):
    """Seconds of the first quarantine of a thing, and of the longest one."""

    first: float
    last: float


ROUTINE = QuarantineDelays(10.0, 600.0)
COSTLY = QuarantineDelays(60.0, 86400.0)
"""Where each attempt may cost a cache."""


class Quarantine(Generic[Thing]):
    """Holds the thing that was rejected last. Each further rejection of the same thing doubles its delay."""

    def __init__(self, wake: Callable[[], None], delays: QuarantineDelays) -> None:
        self._wake = wake
        self._timer = RetryTimer(self._expire, *delays)
        self._thing: Thing | None = None
        self._reason: str | None = None

    def reason(self, thing: Thing) -> str | None:
        """Return why a thing is quarantined, None if it may be tried."""
        return self._reason if thing == self._thing else None

    def reject(self, thing: Thing, reason: str) -> float:
        """Quarantine a thing for the returned seconds."""
        if thing != self._thing:
            self._timer.reset()
        self._thing, self._reason = thing, reason
        return self._timer.schedule()

    def release(self, thing: Thing | None = None) -> None:
        """Let the rejected thing be tried at once, or only this one: something beside it changed."""
        if thing in (None, self._thing):
            self._reason = None

    def clear(self) -> None:
        """Forget the rejected thing and its delays: something was accepted."""
        self.close()
        self._thing = self._reason = None

    def close(self) -> None:
        """Cancel the timer."""
        self._timer.cancel()

    def _expire(self) -> None:
        self._reason = None
        self._wake()
