"""An event loop whose time is virtual: instead of waiting it moves the clock.

In:   a coroutine.
Out:  what it returns, after as much real time as it takes to compute.
Promises: timers fire in their order and at their time, to the digit, so a run depends on nothing but the coroutine.
``time.monotonic`` and ``time.time`` return the loop's time as long as the coroutine runs, and are themselves again
afterwards. Where nothing is left that could ever happen, Deadlock is raised.
"""

import asyncio
import functools
import gc
import selectors
import time
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar
from unittest import mock

T = TypeVar("T")
P = ParamSpec("P")
BEGIN_SECONDS = 1000.0
"""Not 0: some code takes 0 for never."""


class Deadlock(RuntimeError):
    """All tasks wait, and no timer is pending."""


class _Selector(selectors.SelectSelector):
    """Moves the clock to the next timer where a real one would sleep."""

    now = BEGIN_SECONDS

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise Deadlock("nothing is left that could ever happen")
        if not ready and timeout is not None and timeout > 0:
            self.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._clock = _Selector()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        try:
            clock = runner.get_loop().time
            with mock.patch.multiple(time, monotonic=clock, time=clock):
                return runner.run(main)
        finally:
            gc.unfreeze()  # an operator freezes what it has read, as if it stayed for ever


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Make a plain test of an asynchronous one."""

    @functools.wraps(test)
    def run_test(*arguments: P.args, **named: P.kwargs) -> T:
        return run(test(*arguments, **named))

    return run_test


def now() -> float:
    """Return the virtual time."""
    return asyncio.get_running_loop().time()
