"""Objects that the operator reads because others reference them: ConfigMaps with user VCL and authorities.

In:   the objects that translation depends on.
Out:  ``deliver`` is called with their contents. Each is read by its own name, so the operator
      reads no other object of the kind. ``follow`` returns once every new watch has listed, so that no
      status claims that an object doesn't exist before the operator has looked.

Any user who may write a Gateway can name objects, and each watch costs a connection. So the operator watches
the first few of a namespace and polls the others one after the other, at a rate that doesn't depend on their number.
No batch waits for those.
"""

import asyncio
import itertools
import logging
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
from varnish_gateway.operator.observe.polling import PolledObject, poll_forever

READ_SECONDS = 5.0
"""How long a batch waits for objects that can't be read; they are then treated as missing."""
WATCHES_PER_NAMESPACE = 16

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
        self._polled: dict[tuple[str, str], dict[Key, PolledObject]] = {}
        self._polls: dict[tuple[str, str], asyncio.Task[None]] = {}

    @property
    def problems(self) -> Iterator[str]:
        """Return which objects can't be read at the moment, and why."""
        found = itertools.chain.from_iterable(one.items() for one in self._read.values())
        return (f"{key}: {reading.problem}" for key, reading in found if reading.problem)

    async def follow(self, referenced: Referenced, group: asyncio.TaskGroup) -> bool:
        """Read the referenced objects and no others; return whether that changed anything."""
        new: list[FollowedObject] = []
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
                known[key] = self._start(key, group)
                if key in self._watches:
                    new.append(known[key])
        await _first_read(new)
        return has_changed

    def _start(self, key: Key, group: asyncio.TaskGroup) -> FollowedObject:
        place = (key.kind, key.namespace)
        if self._watched[place] < WATCHES_PER_NAMESPACE:
            self._watched[place] += 1
            return self._watch(key, group)
        polled = PolledObject(key, json_decoder(KINDS[key.kind]).decode, self._deliver)
        self._polled.setdefault(place, {})[key] = polled
        if place not in self._polls:
            log.warning(
                "%s: more than %d objects are referenced; the others are polled", place[1], self._watched[place]
            )
            self._polls[place] = group.create_task(poll_forever(self._client, self._polled[place]))
        group.create_task(polled.read(self._client))
        return polled

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
        self._polled[place].pop(key).end()
        if not self._polled[place]:
            del self._polled[place]
            await _cancel(self._polls.pop(place))


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


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})  # unlike awaiting the task, this lets our own cancellation through
