"""Bring a Gateway's ConfigMaps to what is wanted: routing shards, their index, main.vcl.

In:   the Plan of a Gateway.
Out:  server-side applies, only of what differs, in the order that readers rely on: what pods
      need to read it, shards, the index with shard 0, and then main.vcl with the generation.
      So whoever sees a generation has its listeners.

Routing belongs to the HTTPRoute controller and main.vcl to the Gateway controller: each applies
its own keys under its own name.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import structs

from varnish_gateway.api import Key
from varnish_gateway.emit import manifests, names
from varnish_gateway.emit.manifests import GatewayShape
from varnish_gateway.emit.routing import content_hash
from varnish_gateway.operator.live import LiveMap, decode_map
from varnish_gateway.operator.objects import NotOurs, Objects
from varnish_gateway.operator.plan import Plan
from varnish_gateway.operator.sources import Sources
from varnish_gateway.operator.writer import Writer

READING = ("ServiceAccount", "Role", "RoleBinding")
"""What a pod needs before it can read what is written here."""
AT_ONCE = 16


class Routing:
    """``surplus`` is called with each ConfigMap that has no shard any more."""

    def __init__(self, writer: Writer, sources: Sources, objects: Objects, surplus: Callable[[Key], None]) -> None:
        self._writer = writer
        self._sources = sources
        self._objects = objects
        self._surplus = surplus
        self._at_once = asyncio.Semaphore(AT_ONCE)

    async def bring(self, plan: Plan) -> None:
        """Have the ConfigMaps as they are wanted. Changes that come meanwhile need another call."""
        shape = plan.shape
        if shape is None:
            return
        if not plan.readable:
            await self._make_readable(plan)
        doubted, plan.doubted = plan.doubted, set()
        try:
            await self._bring_maps(plan, shape, doubted)
        except BaseException:
            plan.doubted |= doubted
            raise

    async def _make_readable(self, plan: Plan) -> None:
        plan.readable = True  # until the objects are made anew
        try:
            for key in [key for key in plan.objects or () if key.kind in READING]:
                await self._objects.bring(key)
        except BaseException:
            plan.readable = False
            raise

    async def _bring_maps(self, plan: Plan, shape: GatewayShape, doubted: set[int]) -> None:
        shards, index, head = dict(plan.shards), plan.index(), manifests.head_hash(shape)
        wanted = [(number, shards[number]) for number in sorted(doubted) if number and number in shards]
        beside = [(number, shard) for number, shard in wanted if not self._has_shard(shape, number, shard.hash, head)]
        await asyncio.gather(*(self._apply_shard(shape, number, shard.text) for number, shard in beside))
        main = await self._main(shape)
        if main is None or (main.routing, main.index) != (shards[0].hash, _hash(index)):
            main = await self._apply(manifests.routing_map(shape, shards[0].text, index), names.ROUTE_MANAGER)
        await self._bring_vcl(plan, shape, main)
        gone = {number for number in plan.surplus if number >= len(shards)}
        plan.surplus -= gone
        for number in gone:
            self._surplus(_key(shape, number))

    async def _bring_vcl(self, plan: Plan, shape: GatewayShape, main: LiveMap) -> None:
        """Apply main.vcl and the generation. User VCL that can't be had leaves the last good one."""
        vcl = plan.vcl if plan.vcl is not None else main.vcl
        generation = plan.gateway.metadata.generation
        wanted = (vcl, str(generation), manifests.head_hash(shape), shape.uid)
        if vcl is None or (main.vcl, main.generation, main.head, main.owner) == wanted:
            return
        await self._apply(manifests.config_map(shape, vcl, generation), names.GATEWAY_MANAGER)

    async def _apply_shard(self, shape: GatewayShape, number: int, text: bytes) -> None:
        async with self._at_once:
            await self._apply(manifests.shard_map(shape, number, text), names.ROUTE_MANAGER)

    async def _apply(self, manifest: Mapping[str, Any], manager: str) -> LiveMap:
        live = decode_map(await self._writer.apply(manifest, manager=manager))
        metadata = manifest["metadata"]
        self._sources.answered(Key("ConfigMap", metadata["namespace"], metadata["name"]), live)
        return live

    async def _main(self, shape: GatewayShape) -> LiveMap | None:
        """Return the main ConfigMap; one that is not ours is not touched."""
        key = _key(shape, 0)
        live = self._sources.live.get(key)
        if isinstance(live, LiveMap):
            return live
        text = await self._writer.get(key)
        if text is None:
            return None
        found = decode_map(text)
        if not found.gateway.name and not found.routing:
            raise NotOurs(
                f"{key} exists and is not managed by Varnish Gateway; remove it, or give the Gateway another name"
            )
        return structs.replace(found, head="")  # it is not among ours: a label is missing

    def _has_shard(self, shape: GatewayShape, number: int, routing: str, head: str) -> bool:
        live = self._sources.live.get(_key(shape, number))
        return isinstance(live, LiveMap) and (live.routing, live.head) == (routing, head)


def _key(shape: GatewayShape, number: int) -> Key:
    return Key("ConfigMap", shape.namespace, names.config_map(shape.name, number))


def _hash(text: bytes | None) -> str:
    return content_hash(text) if text is not None else ""
