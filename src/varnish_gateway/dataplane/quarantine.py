"""What was refused is left alone for a while, and then tried again: it may have been the moment.

In:   what was refused, and why.
Out:  why, for as long as it is to be left alone; then a call of ``wake``.

A compiler that was killed, a name that could not be resolved and a file that could not be opened
look like a mistake of whoever wrote the VCL or the routes. Nobody tells them apart, so everything
that was refused has another chance after seconds, and from then on ever more rarely.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from varnish_gateway.dataplane.retry import Delays

FIRST_SECONDS, LAST_SECONDS = 10.0, 600.0
COSTLY_FIRST_SECONDS, COSTLY_LAST_SECONDS = 60.0, 86400.0
"""Where each attempt may cost a cache."""

Thing = TypeVar("Thing")


class Refused(Generic[Thing]):
    """The thing that was refused last. The same one is left alone for twice as long each time."""

    def __init__(self, wake: Callable[[], None], *, costly: bool = False) -> None:
        self._wake = wake
        first, last = (COSTLY_FIRST_SECONDS, COSTLY_LAST_SECONDS) if costly else (FIRST_SECONDS, LAST_SECONDS)
        self._delays = Delays(self._expire, first, last)
        self._thing: Thing | None = None
        self._why: str | None = None

    def why(self, thing: Thing) -> str | None:
        """Return why a thing is to be left alone, None if it may be tried."""
        return self._why if thing == self._thing else None

    def note(self, thing: Thing, why: str) -> float:
        """Leave a thing alone for the seconds that are returned."""
        if thing != self._thing:
            self._delays.begin_anew()
        self._thing, self._why = thing, why
        return self._delays.again()

    def forgive(self, thing: Thing | None = None) -> None:
        """Let what was refused, or this thing alone, be tried at once: something other than itself has changed."""
        if thing in (None, self._thing):
            self._why = None

    def clear(self) -> None:
        """Begin anew: something was accepted."""
        self.close()
        self._thing = self._why = None

    def close(self) -> None:
        """Let no timer go off any more."""
        self._delays.cancel()

    def _expire(self) -> None:
        self._why = None
        self._wake()
