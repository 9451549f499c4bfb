"""Objects that the operator reads because others reference them: ConfigMaps with user VCL and authorities.

In:   the objects that translation depends on.
Out:  ``deliver`` is called with their contents. Each is read by its own name, so the operator
      reads no other object of the kind. ``follow`` returns once every new watch has listed, so that no
      status claims that an object doesn't exist before the operator has looked.

Any user who may write a Gateway can name objects, and each watch costs a connection. So the operator watches
the first few of a namespace, and so many in all; the last half of these is for namespaces that have few. It polls
the others one after the other, at a rate that depends neither on their number nor on that of the namespaces.
No batch waits for those, but the first: an operator that starts would take all of them for missing, and close ports
whose clients they validate.
"""

import asyncio
import itertools
import logging
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Protocol

from varnish_gateway import api
from varnish_gateway.api import Key
from varnish_gateway.decoding import json_decoder
from varnish_gateway.kinds import KINDS, Use, used_for
from varnish_gateway.kube.client import Client
from varnish_gateway.kube.reflector import Reflector
from varnish_gateway.kube.resources import RESOURCES
from varnish_gateway.operator.observe.polling import PolledObject, Poller

READ_SECONDS = 5.0
"""How long a batch waits for objects that can't be read; they are then treated as missing."""
START_SECONDS = 30.0
"""How long an operator that starts waits for polled objects."""
START_AT_ONCE = 16
"""So many polled objects are read at once then."""
RETRY_SECONDS = 1.0
"""Between two attempts to read a polled object then, for READ_SECONDS."""
WATCHES_PER_NAMESPACE = 16
MOST_WATCHES = 256
"""In all namespaces."""
FEW_WATCHES = 2
"""Of a namespace, once half of all watches are in use: what came first doesn't leave the others without any."""

MOST_NAMED = 5
"""So many namespaces with polled objects are named, the others are counted."""

Referenced = Callable[[str], Collection[Key]]
"""Translator.referenced: the objects of a kind that translation depends on."""

log = logging.getLogger(__name__)


class FollowedObject(Protocol):
    """A watched or polled object. ``problem`` is why it can't be read now."""

    synced: asyncio.Event
    problem: str | None


class ReferencedObjects:
    def __init__(self, client: Client, deliver: Callable[[dict[Key, api.Object | None]], None]) -> None:
        self._client = client
        self._deliver = deliver
        self._read: dict[str, dict[Key, FollowedObject]] = {kind.name: {} for kind in used_for(Use.REFERENCED)}
        self._watches: dict[Key, asyncio.Task[None]] = {}
        self._watched: Counter[tuple[str, str]] = Counter()  # by kind and namespace
        self._poller = Poller(client)
        self._polling: asyncio.Task[None] | None = None
        self._is_starting = True

    @property
    def problems(self) -> Iterator[str]:
        """Return which objects can't be read at the moment, and why."""
        found = itertools.chain.from_iterable(one.items() for one in self._read.values())
        return (f"{key}: {reading.problem}" for key, reading in found if reading.problem)

    @property
    def polled(self) -> str:
        """Return how many objects are polled because there are too many to watch; "" for none."""
        if not (count := len(self._poller)):
            return ""
        names = self._poller.namespaces
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        watched = len(self._watches)
        return f"{watched} references are watched, {count} polled: {', '.join(names[:MOST_NAMED])}{more}"

    async def follow(self, referenced: Referenced, group: asyncio.TaskGroup) -> bool:
        """Read the referenced objects and no others; return whether that changed anything."""
        new: list[FollowedObject] = []
        polled: list[PolledObject] = []
        has_changed = False
        for kind, known in self._read.items():
            if referenced(kind) == known.keys():
                continue
            has_changed = True
            desired = frozenset(referenced(kind))
            for key in known.keys() - desired:
                del known[key]
                await self._stop(key)
                self._deliver({key: None})
            for key in sorted(desired - known.keys()):
                started = known[key] = self._start(key, group)
                if isinstance(started, PolledObject):
                    polled.append(started)
                else:
                    new.append(started)
        await _first_read(new)
        if self._is_starting:
            await _first_polls(polled, self._client)
            self._is_starting = has_changed
        return has_changed

    def _start(self, key: Key, group: asyncio.TaskGroup) -> FollowedObject:
        place = (key.kind, key.namespace)
        if self._may_watch(self._watched[place]):
            self._watched[place] += 1
            return self._watch(key, group)
        if key.namespace not in self._poller.namespaces:
            log.warning(
                "namespace %s: %d of its referenced objects are watched, of %d in all; the others are polled",
                *(key.namespace, self._watched[place], len(self._watches)),
            )
        polled = PolledObject(key, json_decoder(KINDS[key.kind]).decode, self._deliver)
        self._poller.add(key, polled)
        if self._polling is None:
            self._polling = group.create_task(self._poller.run())
        return polled

    def _may_watch(self, own: int) -> bool:
        """Whether a namespace that has so many watches may have another one."""
        in_all = len(self._watches)
        is_scarce = in_all >= MOST_WATCHES // 2
        return in_all < MOST_WATCHES and own < (FEW_WATCHES if is_scarce else WATCHES_PER_NAMESPACE)

    def _watch(self, key: Key, group: asyncio.TaskGroup) -> FollowedObject:
        decode = json_decoder(KINDS[key.kind]).decode
        resource = RESOURCES[key.kind]
        reflector = Reflector(self._client, resource, decode, self._deliver, namespace=key.namespace, name=key.name)
        self._watches[key] = group.create_task(reflector.run())
        return reflector

    async def _stop(self, key: Key) -> None:
        place = (key.kind, key.namespace)
        if key in self._watches:
            self._watched[place] -= 1
            await _cancel(self._watches.pop(key))
            return
        self._poller.remove(key)
        if not len(self._poller) and self._polling is not None:
            await _cancel(self._polling)
            self._polling = None


async def _first_read(readings: Collection[FollowedObject]) -> None:
    """Wait until each was read once, for a limited time."""
    reading = [asyncio.create_task(one.synced.wait()) for one in readings]
    if not reading:
        return
    _, late = await asyncio.wait(reading, timeout=READ_SECONDS)
    for task in late:
        task.cancel()
    if late:
        problems = [one.problem or "no answer" for one in readings if not one.synced.is_set()]
        log.warning("can't read referenced objects: %s, and %d more", problems[0], len(problems) - 1)


async def _first_polls(polled: Collection[PolledObject], client: Client) -> None:
    """Read polled objects once, many at the same time and for a limited time."""
    slots = asyncio.Semaphore(START_AT_ONCE)
    reading = [asyncio.create_task(_first_poll(one, client, slots)) for one in polled]
    if not reading:
        return
    try:
        await asyncio.wait(reading, timeout=START_SECONDS)
    finally:
        for task in reading:
            task.cancel()
    if unread := [one.problem or "no answer" for one in polled if not one.synced.is_set()]:
        log.warning("can't read referenced objects: %s, and %d more", unread[0], len(unread) - 1)


async def _first_poll(polled: PolledObject, client: Client, slots: asyncio.Semaphore) -> None:
    for _ in range(math.ceil(READ_SECONDS / RETRY_SECONDS)):
        async with slots:
            await polled.read(client)
        if polled.synced.is_set():
            return
        await asyncio.sleep(RETRY_SECONDS)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})  # unlike awaiting the task, this lets our own cancellation through
