"""EndpointSlices of exactly the namespaces that routing names.

In:   the namespaces that are wanted now.
Out:  changed EndpointSlices, and a word when the first list of a namespace is complete.

Each namespace has a watch of its own, so one that may not be read disturbs no other. A
namespace that nobody names any more is watched for GRACE_SECONDS longer, so that a route
which is replaced costs no new list; then its EndpointSlices are told as gone.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable

import msgspec

from varnish_gateway.api import EndpointSlice, Key
from varnish_gateway.kube.client import Client
from varnish_gateway.kube.reflector import Changes, Reflector
from varnish_gateway.kube.resources import RESOURCES

GRACE_SECONDS = 30.0
SETTLE_SECONDS = 2.0
"""How long routing waits for the first list of a namespace that is new to it.

Where nothing serves yet it waits longer, unless the API server answers that it may not be.
"""
POLL_SECONDS = 0.1

_decode = msgspec.json.Decoder(EndpointSlice).decode


class SliceWatches:
    """``changed`` gets what a watch brings; ``listed`` is called once per watch, after its first list."""

    def __init__(
        self,
        client: Client,
        changed: Callable[[Changes[EndpointSlice]], None],
        listed: Callable[[str], None],
    ) -> None:
        self._client = client
        self._tasks: asyncio.TaskGroup | None = None
        self._changed = changed
        self._listed = listed
        self._watches: dict[str, _Watch] = {}
        self._leaving: dict[str, asyncio.TimerHandle] = {}
        self._unlisted: set[str] = set()

    def __len__(self) -> int:
        """Return how many namespaces are watched."""
        return len(self._watches)

    @property
    def problems(self) -> list[tuple[str, str]]:
        """Namespaces that can't be watched now, and why."""
        found = ((namespace, watch.reflector.problem) for namespace, watch in self._watches.items())
        return [(namespace, problem) for namespace, problem in found if problem is not None]

    def begin(self, tasks: asyncio.TaskGroup) -> None:
        """Say where the watches run."""
        self._tasks = tasks

    def want(self, namespaces: Iterable[str]) -> None:
        """Watch these namespaces; others are let go of, though not at once."""
        wanted = set(namespaces)
        for namespace in wanted & self._leaving.keys():
            self._leaving.pop(namespace).cancel()
        for namespace in wanted - self._watches.keys():
            self._watches[namespace] = self._watch(namespace)
        loop = asyncio.get_running_loop()
        for namespace in self._watches.keys() - wanted - self._leaving.keys():
            self._leaving[namespace] = loop.call_later(GRACE_SECONDS, self._end, namespace)

    async def settle(self, *, serving: bool) -> None:
        """Return when the first list of every namespace is there, or waiting longer is of no use."""
        for namespace in self._unlisted - self._leaving.keys():
            await self._watches[namespace].settle(serving=serving)

    def close(self) -> None:
        """Let no timer go off any more."""
        for timer in self._leaving.values():
            timer.cancel()
        self._leaving.clear()

    def _watch(self, namespace: str) -> "_Watch":
        if self._tasks is None:
            raise RuntimeError("begin comes before want")
        watch = _Watch(self._client, namespace, self._changed)
        watch.task = self._tasks.create_task(self._follow(watch))
        self._unlisted.add(namespace)
        return watch

    async def _follow(self, watch: "_Watch") -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(watch.reflector.run())
            await watch.reflector.synced.wait()
            self._unlisted.discard(watch.namespace)
            self._listed(watch.namespace)

    def _end(self, namespace: str) -> None:
        del self._leaving[namespace]
        self._unlisted.discard(namespace)
        watch = self._watches.pop(namespace)
        watch.is_ended = True
        if watch.task is not None:
            watch.task.cancel()
        self._changed(dict.fromkeys(watch.keys))


class _Watch:
    """The watch of one namespace, with the keys of what it brought. Once it ``is_ended``, it brings nothing more."""

    def __init__(self, client: Client, namespace: str, changed: Callable[[Changes[EndpointSlice]], None]) -> None:
        self.namespace = namespace
        self.keys: set[Key] = set()
        self.task: asyncio.Task[None] | None = None
        self.is_ended = False
        self._changed = changed
        self._began = asyncio.get_running_loop().time()
        self.reflector = Reflector(client, RESOURCES["EndpointSlice"], _decode, self._deliver, namespace=namespace)

    def _deliver(self, changes: Changes[EndpointSlice]) -> None:
        if self.is_ended:
            return  # a task that is cancelled may take one more step, and nobody would tell what it brings as gone
        for key, piece in changes.items():
            if piece is None:
                self.keys.discard(key)
            else:
                self.keys.add(key)
        self._changed(changes)

    async def settle(self, *, serving: bool) -> None:
        """Wait for the first list, for a while; where nothing serves yet, until it is there or refused."""
        synced, time = self.reflector.synced, asyncio.get_running_loop().time
        while not synced.is_set():
            is_refused = self.reflector.problem is not None and not self.reflector.unanswered
            if (serving or is_refused) and time() - self._began >= SETTLE_SECONDS:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await synced.wait()
