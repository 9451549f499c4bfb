"""ConfigMaps that other objects name: user VCL of parameters, authorities of Gateways.

In:   which object names which ConfigMaps.
Out:  ``deliver`` is called with the ConfigMaps. They are watched one by one. A new one is read
      before what names it is handed on, so that nobody is told that it does not exist.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable

import msgspec

from varnish_gateway import api
from varnish_gateway.api import Key
from varnish_gateway.kube.client import Client
from varnish_gateway.kube.reflector import Reflector
from varnish_gateway.kube.resources import RESOURCES

READ_SECONDS = 5.0
NOTHING: frozenset[Key] = frozenset()

log = logging.getLogger(__name__)


def maps_named_by(obj: api.Object | None, class_name: str) -> frozenset[Key]:
    """Return the ConfigMaps that parameters, or a Gateway of the class, name."""
    if isinstance(obj, api.GatewayClassParameters):
        ref = obj.spec.user_vcl_config_map_ref
        return NOTHING if ref is None else frozenset({Key(api.ConfigMap.kind, ref.namespace, ref.name)})
    if not isinstance(obj, api.Gateway) or obj.spec.gateway_class_name != class_name:
        return NOTHING
    frontend = obj.spec.tls.frontend
    validations = [tls.validation for tls in (frontend.default, *(one.tls for one in frontend.per_port))]
    return frozenset(
        Key(api.ConfigMap.kind, ref.namespace or obj.metadata.namespace, ref.name)
        for validation in validations
        if validation is not None
        for ref in validation.ca_certificate_refs
        if (ref.group, ref.kind) == ("", api.ConfigMap.kind)
    )


class NamedMaps:
    def __init__(self, client: Client, deliver: Callable[[dict[Key, api.Object | None]], None]) -> None:
        self._client = client
        self._deliver = deliver
        self._named: dict[Key, frozenset[Key]] = {}
        self._counts: Counter[Key] = Counter()
        self._watches: dict[Key, asyncio.Task[None]] = {}
        self.is_behind = False

    def name(self, by: Key, maps: frozenset[Key]) -> None:
        """Take in which ConfigMaps an object names now; ``follow`` has to be called where we are behind then."""
        before = self._named.pop(by, NOTHING)
        if maps:
            self._named[by] = maps
        self._counts.update(maps - before)
        self._counts.subtract(before - maps)
        self._counts = +self._counts if before - maps else self._counts
        self.is_behind = self.is_behind or before != maps

    async def follow(self, group: asyncio.TaskGroup) -> None:
        """Watch what is named now, and nothing else."""
        self.is_behind = False
        wanted = self._counts.keys()
        for key in self._watches.keys() - wanted:
            await _end(self._watches.pop(key))
            self._deliver({key: None})
        new = [self._watch(key, group) for key in wanted - self._watches.keys()]
        reading = [asyncio.create_task(reflector.synced.wait()) for reflector in new]
        if not reading:
            return
        _, late = await asyncio.wait(reading, timeout=READ_SECONDS)
        for task in late:
            task.cancel()
        if late:
            log.warning("can't read what is named: %s", "; ".join(one.problem or "no answer" for one in new))

    def _watch(self, key: Key, group: asyncio.TaskGroup) -> Reflector[api.Object]:
        decoder: msgspec.json.Decoder[api.Object] = msgspec.json.Decoder(api.ConfigMap)
        resource = RESOURCES[api.ConfigMap.kind]
        reflector = Reflector(
            self._client, resource, decoder.decode, self._deliver, namespace=key.namespace, name=key.name
        )
        self._watches[key] = group.create_task(reflector.run())
        return reflector


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})  # which lets our own cancellation through
