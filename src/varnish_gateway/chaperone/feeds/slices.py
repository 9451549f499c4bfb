"""EndpointSlices of exactly the namespaces that routing names.

In:   the namespaces that routing names now.
Out:  changed EndpointSlices, and a call when the first list of a namespace is complete.

Each namespace has a watch of its own, so one that RBAC forbids disturbs no other. A namespace that
routing does not name any more is watched for GRACE_SECONDS longer, so that replacing a route costs
no new list; then its EndpointSlices are reported as gone.
"""

import asyncio
import math
from collections.abc import Callable, Iterable

import msgspec

from varnish_gateway.api import EndpointSlice, Key
from varnish_gateway.kube.client import Client
from varnish_gateway.kube.reflector import Changes, Reflector
from varnish_gateway.kube.resources import RESOURCES

GRACE_SECONDS = 30.0
FIRST_LIST_SECONDS = 2.0
"""How long the API server has to forbid the first list of a new namespace before routing applies without it."""
LONGEST_LIST_SECONDS = 15.0
"""How long new routing waits for a list that fails otherwise, where a pod serves already."""

_decode = msgspec.json.Decoder(EndpointSlice).decode


class SliceWatches:
    """``on_change`` is called with what a watch reports, ``on_listed`` once per watch, after its first list."""

    def __init__(
        self,
        client: Client,
        on_change: Callable[[Changes[EndpointSlice]], None],
        on_listed: Callable[[str], None],
    ) -> None:
        self._client = client
        self._tasks: asyncio.TaskGroup | None = None
        self._on_change = on_change
        self._on_listed = on_listed
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

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Set the task group that the watches run in."""
        self._tasks = tasks

    def watch(self, namespaces: Iterable[str]) -> None:
        """Watch these namespaces; the others only until their grace period ends."""
        named = set(namespaces)
        for namespace in named & self._leaving.keys():
            self._leaving.pop(namespace).cancel()
        for namespace in named - self._watches.keys():
            self._watches[namespace] = self._start_watch(namespace)
        loop = asyncio.get_running_loop()
        for namespace in self._watches.keys() - named - self._leaving.keys():
            self._leaving[namespace] = loop.call_later(GRACE_SECONDS, self.end, namespace)

    async def until_listed(self, *, serving: bool) -> None:
        """Return when every namespace was listed once, or when waiting longer is of no use."""
        for namespace in self._unlisted - self._leaving.keys():
            await self._watches[namespace].until_listed(serving=serving)

    def close(self) -> None:
        """End all watches. Their EndpointSlices are not reported as gone."""
        for timer in self._leaving.values():
            timer.cancel()
        self._leaving.clear()
        for watch in self._watches.values():
            if watch.task is not None:
                watch.task.cancel()

    def _start_watch(self, namespace: str) -> "_Watch":
        if self._tasks is None:
            raise RuntimeError("start comes before watch")
        watch = _Watch(self._client, namespace, self._on_change)
        watch.task = self._tasks.create_task(self._follow(watch))
        self._unlisted.add(namespace)
        return watch

    async def _follow(self, watch: "_Watch") -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(watch.reflector.run())
            await watch.reflector.synced.wait()
            self._unlisted.discard(watch.namespace)
            self._on_listed(watch.namespace)

    def end(self, namespace: str) -> None:
        """End the watch of a namespace in its grace period."""
        self._leaving.pop(namespace).cancel()
        self._unlisted.discard(namespace)
        watch = self._watches.pop(namespace)
        watch.is_ended = True
        if watch.task is not None:
            watch.task.cancel()
        self._on_change(dict.fromkeys(watch.keys))


class _Watch:
    """The watch of one namespace, with the keys that it reported. Once it ``is_ended``, it reports nothing more."""

    def __init__(self, client: Client, namespace: str, on_change: Callable[[Changes[EndpointSlice]], None]) -> None:
        self.namespace = namespace
        self.keys: set[Key] = set()
        self.task: asyncio.Task[None] | None = None
        self.is_ended = False
        self._on_change = on_change
        self._began = asyncio.get_running_loop().time()
        self.reflector = Reflector(client, RESOURCES["EndpointSlice"], _decode, self._deliver, namespace=namespace)

    def _deliver(self, changes: Changes[EndpointSlice]) -> None:
        if self.is_ended:
            return  # a cancelled task may run one more step; what it reported then would never be removed
        for key, piece in changes.items():
            if piece is None:
                self.keys.discard(key)
            else:
                self.keys.add(key)
        self._on_change(changes)

    async def until_listed(self, *, serving: bool) -> None:
        """Wait for the first list. A pod that serves goes on without it after a while; a fresh one has to have it."""
        waited = asyncio.get_running_loop().time() - self._began
        at_most = max(0.0, LONGEST_LIST_SECONDS - waited) if serving else math.inf
        await self.reflector.until_listed(forbidden=FIRST_LIST_SECONDS, at_most=at_most)
