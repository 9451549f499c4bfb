"""Exponential backoff: how long to wait before the next attempt.

In:   the first delay, the last one, the factor between two delays, and optionally a source of chance.
Out:  delays that grow from ``first`` to ``last``.
Pure: the caller sleeps or sets a timer. Every retry in this package takes its delays from here.
"""

from collections.abc import Callable


class Backoff:
    """Delays of one series of failed attempts; ``reset`` ends the series.

    ``jitter`` returns a number from 0 to 1, such as ``random.random``. With it a delay lies
    between half and all of its nominal value, so that clients which failed together spread out.
    """

    def __init__(
        self, first: float, last: float, *, factor: float = 2.0, jitter: Callable[[], float] | None = None
    ) -> None:
        self._first = min(first, last)
        self._last = last
        self._factor = factor
        self._jitter = jitter
        self._seconds = self._first
        self._attempts = 0

    @property
    def attempts(self) -> int:
        """How many delays ``next`` has returned since the last reset."""
        return self._attempts

    def next(self, *, most: float = float("inf"), asked: float = 0.0) -> float:
        """Return the seconds to wait before the next attempt, ``most`` of them; delays grow on from there.

        ``asked`` is what the other side asked for: see ``asked_for``.
        """
        seconds = min(self._seconds, most)
        self._seconds = min(seconds * self._factor, self._last)
        self._attempts += 1
        own = seconds if self._jitter is None else seconds * (0.5 + self._jitter() / 2)
        return max(own, self.asked_for(asked))

    def asked_for(self, seconds: float) -> float:
        """Return the delay where the other side asked for so many seconds: at least those, but at most the last delay.

        The other side asks every rejected client for the same delay: with jitter each waits up to half as long again.
        """
        if self._jitter is not None and seconds:
            seconds *= 1 + self._jitter() / 2
        return min(seconds, self._last)

    def reset(self) -> None:
        """Start over with the first delay: an attempt succeeded."""
        self._seconds, self._attempts = self._first, 0
