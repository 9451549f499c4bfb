"""Bring a Gateway's ConfigMaps to what is wanted: routing shards, their index, main.vcl.

In:   the Plan of a Gateway.
Out:  server-side applies, only of what differs, in the order that readers rely on: what pods
      need to read it, shards, the index with shard 0, and then main.vcl with the generation.
      So whoever sees a generation has its listeners.

Routing belongs to the HTTPRoute controller and main.vcl to the Gateway controller: each applies
its own keys under its own name.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from msgspec import structs

from varnish_gateway import errors
from varnish_gateway.api import Key
from varnish_gateway.emit import manifests, names
from varnish_gateway.emit.manifests import GatewayShape
from varnish_gateway.operator.execute.objects import Objects, check_ours
from varnish_gateway.operator.execute.writer import Writer
from varnish_gateway.operator.observe.owned import LiveMap, decode_map, decode_shard
from varnish_gateway.operator.observe.sources import Sources
from varnish_gateway.operator.plan.gateway import Plan, Shard

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
        if shape is None or (plan.objects is None and _key(shape, 0) not in self._sources.live):
            return  # a class at fault stops nothing that is in force, and begins nothing
        while plan.unread:  # objects may be made anew meanwhile
            await self._make_readable(plan.unread.pop(), plan, shape)
        doubted, plan.doubted = plan.doubted, set()
        try:
            await self._bring_maps(plan, plan.shape or shape, doubted)  # the newest: doubts are about that one
        except BaseException:
            plan.doubted |= doubted
            raise

    async def _make_readable(self, key: Key, plan: Plan, shape: GatewayShape) -> None:
        """Bring about one thing that pods need. Endpoints that can't be had are the loss of their routes alone."""
        try:
            await self._objects.bring(key)
        except (errors.ApiRefused, errors.NotOurs):
            if key.name != names.endpoints_binding(shape.namespace, shape.name):
                plan.unread.add(key)
                raise
        except BaseException:
            plan.unread.add(key)
            raise

    async def _bring_maps(self, plan: Plan, shape: GatewayShape, doubted: set[int]) -> None:
        first, hashes, index, fresh, head = plan.shards[0], plan.hashes, plan.index(), plan.recent.take(), plan.head
        vcl, generation = plan.vcl, plan.gateway.metadata.generation
        wanted = [(number, plan.shards[number]) for number in sorted(doubted) if number and number in plan.shards]
        beside = [(number, shard) for number, shard in wanted if not self._has_shard(shape, number, shard.hash, head)]
        await _together([self._apply_shard(shape, number, shard) for number, shard in beside])
        main = await self._stored(_key(shape, 0))
        if main is not None:
            plan.surplus.update(range(len(hashes), main.shards))  # also what another operator needed
        if main is None or (main.routing, main.index) != (first.hash, index):
            main = await self._apply(manifests.routing_map(shape, first.text, index, fresh), names.ROUTE_MANAGER)
        plan.recent.written(hashes)
        await self._bring_vcl(shape, main, vcl if vcl is not None else main.vcl, generation)
        gone = {number for number in plan.surplus if number >= len(hashes)}
        plan.surplus -= gone
        for number in gone:
            self._surplus(_key(shape, number))

    async def _bring_vcl(self, shape: GatewayShape, main: LiveMap, vcl: str | None, generation: int) -> None:
        """Apply main.vcl and the generation."""
        wanted = (vcl, str(generation), manifests.head_hash(shape), shape.uid)
        if vcl is None or (main.vcl, main.generation, main.head, main.owner) == wanted:
            return
        manifest = manifests.config_map(shape, vcl, generation)
        manifest["metadata"]["uid"] = main.uid  # one that is gone meanwhile is not made anew, without its routing
        live = await self._apply(manifest, names.GATEWAY_MANAGER)
        if (live.routing, live.index) != (main.routing, main.index):
            raise errors.Conflict("another operator wrote routing between two writes of ours")

    async def _apply_shard(self, shape: GatewayShape, number: int, shard: Shard) -> None:
        async with self._at_once:
            await self._stored(_key(shape, number))
            manifest = manifests.shard_map(shape, number, shard.text)
            await self._apply(manifest, names.ROUTE_MANAGER, routing=shard.hash)

    async def _apply(self, manifest: Mapping[str, Any], manager: str, routing: str | None = None) -> LiveMap:
        """Apply a part of a ConfigMap, or the whole of one with the hash of its routing: that is not sent back."""
        metadata = manifest["metadata"]
        key = Key("ConfigMap", metadata["namespace"], metadata["name"])
        try:
            with self._sources.awaiting(key):
                answer = await self._writer.apply(manifest, manager=manager, metadata_only=routing is not None)
                live = decode_map(answer) if routing is None else decode_shard(answer, routing)
                self._sources.answered(key, live)
        except errors.FieldConflict as conflict:
            held = f"{key}: {', '.join(conflict.fields)} is held by {', '.join(conflict.managers)}"
            remedy = "delete the ConfigMap, and it is made anew at once"
            raise errors.FieldConflict(
                f"{held}; {remedy}", managers=conflict.managers, fields=conflict.fields
            ) from conflict
        return live if self._sources.is_watched(live) else structs.replace(live, head="")  # a label is missing

    async def _stored(self, key: Key) -> LiveMap | None:
        """Return a ConfigMap as it is stored; raise if it is not ours."""
        live = self._sources.live.get(key)
        if live is None:
            text = await self._writer.get(key)
            if text is None:
                return None
            live = structs.replace(decode_map(text), head="")  # it is not among ours: a label is missing
        check_ours(key, live)
        return live if isinstance(live, LiveMap) else None

    def _has_shard(self, shape: GatewayShape, number: int, routing: str, head: str) -> bool:
        live = self._sources.live.get(_key(shape, number))
        return isinstance(live, LiveMap) and (live.routing, live.head) == (routing, head)


def _key(shape: GatewayShape, number: int) -> Key:
    return Key("ConfigMap", shape.namespace, names.config_map(shape.name, number))


async def _together(writes: list[Coroutine[None, None, None]]) -> None:
    """Await them all, also when one fails: one that went on by itself would undo what is written after it.

    One alone, as nearly always, needs no task of its own.
    """
    if len(writes) == 1:
        await writes[0]
        return
    for result in await asyncio.gather(*writes, return_exceptions=True):
        if result is not None:
            raise result
