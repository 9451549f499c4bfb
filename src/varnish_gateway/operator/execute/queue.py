"""Jobs that wait to run: each at most once, the most urgent first.

In:   jobs, by ``add``, whenever something changes that concerns them.
Out:  jobs, by ``get``. A job that is added while it runs is handed out once more afterwards, so
      that its executor always works with the newest state.
"""

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

Job = TypeVar("Job", bound=Hashable)


class Queue(Generic[Job]):
    """A closed queue drops what is added; it starts closed."""

    def __init__(self) -> None:
        self._is_open = False
        self._heap: list[tuple[int, int, Job]] = []
        self._order = itertools.count()
        self._waiting: set[Job] = set()
        self._running: set[Job] = set()
        self._again: dict[Job, int] = {}
        self._timers: dict[Job, asyncio.TimerHandle] = {}
        self._getters: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        """Return how many jobs wait, without delayed ones."""
        return len(self._waiting) + len(self._again)

    @property
    def delayed(self) -> int:
        """How many jobs wait for their delay to pass."""
        return len(self._timers)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing runs, apart from delayed jobs."""
        return not self._waiting and not self._running

    def add(self, job: Job, urgency: int, *, delay: float = 0.0) -> None:
        """Run a job soon, or after ``delay`` seconds; a smaller urgency number goes first."""
        if not self._is_open:
            return
        timer = self._timers.get(job)
        loop = asyncio.get_running_loop()
        if delay > 0:
            if job in self._waiting or (timer is not None and timer.when() <= loop.time() + delay):
                return
            if timer is not None:
                timer.cancel()
            self._timers[job] = loop.call_later(delay, self.add, job, urgency)
            return
        if timer is not None:
            del self._timers[job]
            timer.cancel()
        if job in self._running:
            self._again[job] = min(urgency, self._again.get(job, urgency))
        elif job not in self._waiting:
            self._waiting.add(job)
            heapq.heappush(self._heap, (urgency, next(self._order), job))
            self._wake_one()

    async def get(self) -> Job:
        """Return the most urgent job; ``done`` has to follow."""
        while not self._heap:
            getter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if getter.done() and not getter.cancelled():
                    self._wake_one()  # it was our turn; wake the next getter
                raise
        _, _, job = heapq.heappop(self._heap)
        self._waiting.discard(job)
        self._running.add(job)
        return job

    def done(self, job: Job) -> None:
        """Finish a job that was handed out, whether it succeeded or not."""
        self._running.discard(job)
        if (urgency := self._again.pop(job, None)) is not None:
            self.add(job, urgency)

    @property
    def unfinished(self) -> set[Job]:
        """Every job that waits, runs or is delayed."""
        return {*self._waiting, *self._running, *self._timers}

    def open(self) -> None:
        """Accept jobs."""
        self._is_open = True

    def close(self) -> None:
        """Drop every job that waits or is delayed, and accept no more."""
        self._is_open = False
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._heap.clear()
        self._waiting.clear()
        self._again.clear()

    def _wake_one(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return
