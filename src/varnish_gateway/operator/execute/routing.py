"""Write a Gateway's ConfigMaps: routing shards, their index, main.vcl.

In:   the desired state of a Gateway.
Out:  server-side applies of what differs, in the order that readers rely on: permissions of the
      pods, further shards, the index with shard 0, and then main.vcl with the generation. A
      reader that sees generation N also has its listeners.

The HTTPRoute controller owns routing and the Gateway controller owns main.vcl: each applies its
own keys under its own field manager.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

from msgspec import structs

from varnish_gateway import errors
from varnish_gateway.api import Key
from varnish_gateway.emit import manifests, names
from varnish_gateway.emit.manifests import GatewayShape
from varnish_gateway.emit.routing import content_hash
from varnish_gateway.operator.execute.field_conflicts import conflict_in
from varnish_gateway.operator.execute.objects import ObjectWriter, check_ours
from varnish_gateway.operator.execute.writer import Writer
from varnish_gateway.operator.observe.owned import OwnedConfigMap, decode_config_map, decode_shard
from varnish_gateway.operator.observe.watches import Watches
from varnish_gateway.operator.plan.gateway import DesiredGateway, RoutingWrite
from varnish_gateway.operator.plan.results import JobResult
from varnish_gateway.operator.plan.routing import EncodedShard

AT_ONCE = 16


class RoutingWriter:
    def __init__(self, writer: Writer, watches: Watches, objects: ObjectWriter) -> None:
        self._writer = writer
        self._watches = watches
        self._observed = watches.observed
        self._objects = objects
        self._at_once = asyncio.Semaphore(AT_ONCE)

    async def ensure(self, gateway: DesiredGateway, result: JobResult) -> None:
        """Write ConfigMaps that differ from the desired ones. Changes that arrive meanwhile need another call."""
        shape = gateway.shape
        if shape is None or (gateway.objects is None and _key(shape, 0) not in self._observed.owned):
            return  # an invalid class starts nothing, and stops nothing that runs
        while gateway.pending_access:  # objects may be rebuilt meanwhile
            await self._ensure_access(gateway.pending_access.pop(), gateway, shape, result)
        write = gateway.begin_write(gateway.shape or shape)
        try:
            await self._write(gateway, write, result)
        except BaseException:
            gateway.abort_write(write)
            raise

    async def _ensure_access(self, key: Key, gateway: DesiredGateway, shape: GatewayShape, result: JobResult) -> None:
        """Apply an object that pods need. Endpoints that pods may not read affect only their routes."""
        try:
            await self._objects.ensure(key, result)
        except (errors.ApiError, errors.NotOurs):
            if key.name != names.endpoints_binding(shape.namespace, shape.name):
                gateway.pending_access.add(key)
                raise
        except BaseException:
            gateway.pending_access.add(key)
            raise

    async def _write(self, gateway: DesiredGateway, write: RoutingWrite, result: JobResult) -> None:
        shape, routing = write.shape, gateway.routing
        differing = [(number, shard) for number, shard in write.dirty if not self._has_shard(write, number, shard)]
        result.touched.update(_key(shape, number) for number, _ in (*differing, (0, write.first)))
        await _together([self._apply_shard(shape, number, shard) for number, shard in differing])
        main = await self._stored(_key(shape, 0))
        if main is not None:
            routing.surplus.update(range(len(write.hashes), main.shards))  # also shards of another operator
        desired = (write.first.hash, write.index, write.understood)
        if main is None or (main.routing, main.index, main.understood) != desired:
            document = manifests.routing_map(shape, write.first.text, write.index, write.patches, write.understood)
            main = await self._apply(document, names.ROUTE_MANAGER)
        routing.on_index_written(write.hashes)
        await self.ensure_vcl(shape, main, write.vcl if write.vcl is not None else main.vcl, write.generation)
        result.touched.update(routing.drain_surplus(len(write.hashes)))

    async def ensure_vcl(self, shape: GatewayShape, main: OwnedConfigMap, vcl: str | None, generation: int) -> None:
        """Apply main.vcl and the generation."""
        if vcl is None:
            return
        desired = (vcl, content_hash(vcl.encode()), str(generation), manifests.head_hash(shape), shape.uid)
        if (main.vcl, main.vcl_hash, main.generation, main.head, main.owner) == desired:
            return
        manifest = manifests.config_map(shape, vcl, generation)
        manifest["metadata"]["uid"] = main.uid  # the apply must not recreate a deleted one without its routing
        stored = await self._apply(manifest, names.GATEWAY_MANAGER)
        if (stored.routing, stored.index) != (main.routing, main.index):
            raise errors.Conflict("another operator wrote routing between two writes of ours")

    async def _apply_shard(self, shape: GatewayShape, number: int, shard: EncodedShard) -> None:
        async with self._at_once:
            await self._stored(_key(shape, number))
            manifest = manifests.shard_map(shape, number, shard.text)
            await self._apply(manifest, names.ROUTE_MANAGER, routing=shard.hash)

    async def _apply(self, manifest: Mapping[str, Any], manager: str, routing: str | None = None) -> OwnedConfigMap:
        """Apply a ConfigMap. With the hash of its routing, the API server does not send that back."""
        metadata = manifest["metadata"]
        key = Key("ConfigMap", metadata["namespace"], metadata["name"])
        try:
            with self._watches.writing(key):
                answer = await self._writer.apply(manifest, manager=manager, metadata_only=routing is not None)
                stored = decode_config_map(answer) if routing is None else decode_shard(answer, routing)
                self._watches.record_owned(key, stored)
        except errors.FieldConflict as conflict:
            raise conflict_in(key, conflict) from conflict
        return stored if self._observed.has_our_labels(stored) else structs.replace(stored, head="")

    async def _stored(self, key: Key) -> OwnedConfigMap | None:
        """Return a ConfigMap as it is stored; raise if it is not ours."""
        owned = self._observed.owned.get(key)
        if owned is None:
            text = await self._writer.get(key)
            if text is None:
                return None
            owned = structs.replace(decode_config_map(text), head="")  # the watches don't report it: a label is missing
        check_ours(key, owned)
        return owned if isinstance(owned, OwnedConfigMap) else None

    def _has_shard(self, write: RoutingWrite, number: int, shard: EncodedShard) -> bool:
        owned = self._observed.owned.get(_key(write.shape, number))
        return isinstance(owned, OwnedConfigMap) and (owned.routing, owned.head) == (shard.hash, write.head)


def _key(shape: GatewayShape, number: int) -> Key:
    return Key("ConfigMap", shape.namespace, names.config_map(shape.name, number))


async def _together(writes: list[Coroutine[None, None, None]]) -> None:
    """Await all writes, even if one fails: a write left running could overwrite a later one.

    A single write, the usual case, needs no task of its own.
    """
    if len(writes) == 1:
        await writes[0]
        return
    for result in await asyncio.gather(*writes, return_exceptions=True):
        if result is not None:
            raise result
