"""Compile the regular expressions of routes and policies outside the event loop.

In:   routes and policies that translation can't translate yet (``ir.Delta.uncompiled``).
Out:  compiled objects for the next translation; ``notify`` is called when there are any.

There is one thread, and compiling releases the GIL: however many objects wait, they take one core and no time
of the event loop. Those of the namespace that has taken the least time come first, so a tenant
whose objects take long delays only itself. A namespace whose objects come later starts with the least that those
before it have taken: it can't make up for time in which it asked for nothing.
"""

import asyncio
import contextlib
import math
import os
import threading
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import NamedTuple

from varnish_gateway.api import Key, Object
from varnish_gateway.translate.compilation import compile_object, compiled_key
from varnish_gateway.translate.precedence import precedence

TURN_SECONDS = 0.02
"""A namespace may go on with further routes and policies of its own for so long, before the next one has its turn."""
TURN_OBJECTS = 64
THREAD_PRIORITY = 10


class CompiledTurn(NamedTuple):
    """What the thread has compiled in one turn, in order, and how long that took."""

    objects: Sequence[Object]
    seconds: float


Run = Callable[[Sequence[Object]], Awaitable[CompiledTurn]]


class MatchCompiler:
    def __init__(self, notify: Callable[[], None], run: Run | None = None) -> None:
        """``run`` calls ``compile_turn``, by default on a thread."""
        self._notify = notify
        self._run = run or _on_thread()
        self._waiting: dict[str, dict[Key, Object]] = {}  # by namespace
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._results: dict[Key, Object | None] = {}
        self._delivered: set[Key] = set()
        self._task: asyncio.Task[None] | None = None
        self._turned = asyncio.Event()

    def __len__(self) -> int:
        """Return the number of routes and policies that wait."""
        return sum(map(len, self._waiting.values()))

    def update(self, uncompiled: Mapping[Key, Object | None], released: AbstractSet[Key] = frozenset()) -> None:
        """Compile these routes and policies, the oldest first. None waits no longer. Forget released ones."""
        waiting = {key: one for key, one in uncompiled.items() if one is not None}
        for key in uncompiled.keys() - waiting.keys():
            self._remove(key)
        for key in released:
            self._forget(key)
        least = min((self._seconds[namespace] for namespace in self._waiting), default=0.0)
        for key in sorted(waiting, key=lambda key: precedence(waiting[key].created, key)):
            if key.namespace not in self._waiting:
                self._seconds[key.namespace] = max(self._seconds[key.namespace], least)
            self._waiting.setdefault(key.namespace, {})[key] = waiting[key]
        if self._waiting and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._compile_all())
            self._task.add_done_callback(self._on_done)

    async def settle(self, seconds: float | None, *, of_namespace: float = math.inf) -> bool:
        """Wait until nothing waits, for so many seconds at most; return whether there are results.

        What a namespace has is waited for until it has taken ``of_namespace`` seconds of the thread.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._task is not None and not self._task.done() and self._may_take(of_namespace):
                    self._turned.clear()
                    await self._turned.wait()
        return bool(self._results)

    def drain(self) -> dict[Key, Object | None]:
        """Return the results for the next translation, None for those that it needs no longer."""
        if self._task is not None and self._task.done():
            self._task.result()  # raises a bug of ours
        results, self._results = self._results, {}
        return results

    def close(self) -> None:
        """Compile nothing more. The thread ends after the turn that it is in."""
        if self._task is not None:
            self._task.cancel()

    def _may_take(self, seconds: float) -> bool:
        """Whether a namespace that waits has taken less than this, or the thread has yet to end its last turn."""
        return not self._waiting or any(self._seconds[namespace] < seconds for namespace in self._waiting)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._turned.set()
        if not task.cancelled():
            self._notify()  # also of a bug

    def _forget(self, key: Key) -> None:
        self._remove(key)
        self._results.pop(compiled_key(key), None)
        if key in self._delivered:
            self._delivered.remove(key)
            self._results[compiled_key(key)] = None

    def _remove(self, key: Key) -> None:
        waiting = self._waiting.get(key.namespace, {})
        waiting.pop(key, None)
        if not waiting:
            self._waiting.pop(key.namespace, None)

    async def _compile_all(self) -> None:
        while self._waiting:
            await self._take_turn(min(self._waiting, key=self._seconds.__getitem__))
        self._seconds.clear()

    async def _take_turn(self, namespace: str) -> None:
        sources = dict(islice(self._waiting[namespace].items(), TURN_OBJECTS))
        turn = await self._run([*sources.values()])
        self._seconds[namespace] += turn.seconds
        for (key, source), compiled in zip(sources.items(), turn.objects, strict=False):
            if self._waiting.get(namespace, {}).get(key) is source:  # it has not changed meanwhile
                self._remove(key)
                self._delivered.add(key)
                self._results[compiled_key(key)] = compiled
        self._turned.set()
        self._notify()


def compile_turn(sources: Sequence[Object]) -> CompiledTurn:
    """Compile routes and policies until the turn is over, at least one."""
    began = time.thread_time()
    compiled: list[Object] = []
    for source in sources:
        compiled.append(compile_object(source))
        if time.thread_time() - began > TURN_SECONDS:
            break
    return CompiledTurn(compiled, time.thread_time() - began)


def _on_thread() -> Run:
    executor = ThreadPoolExecutor(1, thread_name_prefix="regexes", initializer=_lower_priority)
    return lambda sources: asyncio.get_running_loop().run_in_executor(executor, compile_turn, sources)


def _lower_priority() -> None:
    """Let the event loop run first where they compete for a core. Linux gives each thread a priority of its own."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), THREAD_PRIORITY)
