"""Watches of objects that are read only because others reference them, such as ConfigMaps with user VCL.

In:   the objects that translation depends on.
Out:  ``deliver`` is called with their contents. Each is watched by its own name, so the operator
      reads no other object of the kind. ``follow`` returns once every new one was read, so that no
      status claims that an object doesn't exist before the operator has looked.
"""

import asyncio
import logging
from collections.abc import Callable, Collection

from varnish_gateway import api
from varnish_gateway.api import Key
from varnish_gateway.decoding import json_decoder
from varnish_gateway.kinds import KINDS, Use, used_for
from varnish_gateway.kube.client import Client
from varnish_gateway.kube.reflector import Reflector
from varnish_gateway.kube.resources import RESOURCES

READ_SECONDS = 5.0
"""How long a batch waits for objects that can't be read; they are then treated as missing."""

Referenced = Callable[[str], Collection[Key]]
"""Translator.referenced: the objects of a kind that translation depends on."""

log = logging.getLogger(__name__)


class ReferencedObjects:
    def __init__(self, client: Client, deliver: Callable[[dict[Key, api.Object | None]], None]) -> None:
        self._client = client
        self._deliver = deliver
        self._watches: dict[str, dict[Key, asyncio.Task[None]]] = {kind.name: {} for kind in used_for(Use.REFERENCED)}

    async def follow(self, referenced: Referenced, group: asyncio.TaskGroup) -> bool:
        """Watch the referenced objects and no others; return whether that changed anything."""
        new: list[Reflector[api.Object]] = []
        has_changed = False
        for kind, watches in self._watches.items():
            if referenced(kind) == watches.keys():
                continue
            has_changed = True
            desired = frozenset(referenced(kind))
            for key in watches.keys() - desired:
                await _stop(watches.pop(key))
                self._deliver({key: None})
            new += [self._watch(key, group) for key in desired - watches.keys()]
        await _read(new)
        return has_changed

    def _watch(self, key: Key, group: asyncio.TaskGroup) -> Reflector[api.Object]:
        decode = json_decoder(KINDS[key.kind]).decode
        resource = RESOURCES[key.kind]
        reflector = Reflector(self._client, resource, decode, self._deliver, namespace=key.namespace, name=key.name)
        self._watches[key.kind][key] = group.create_task(reflector.run())
        return reflector


async def _read(reflectors: Collection[Reflector[api.Object]]) -> None:
    """Wait until each was read once, for a limited time."""
    reading = [asyncio.create_task(reflector.synced.wait()) for reflector in reflectors]
    if not reading:
        return
    _, late = await asyncio.wait(reading, timeout=READ_SECONDS)
    for task in late:
        task.cancel()
    if late:
        problems = "; ".join(one.problem or "no answer" for one in reflectors if not one.synced.is_set())
        log.warning("can't read referenced objects: %s", problems)


async def _stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})  # unlike awaiting the task, this lets our own cancellation through
