"""The files that ghost reads: shards named by their content, and the manifest.

In:   changed routing shards (bytes, passed through) and changed pools.
Out:  a Bundle: the manifest and every file that it names.
Pure. A change re-encodes the shards that it touches: pools are spread over a power of two
of shards by crc32 of their name, about POOLS_PER_SHARD in each.
"""

from collections.abc import Mapping
from zlib import crc32

import msgspec
from msgspec import Struct

from varnish_gateway.emit.routing import content_hash
from varnish_gateway.ir import wire

POOLS_PER_SHARD = 64
# Shards double above this and halve below that, so a pool that comes and goes moves nothing.
_GROW_ABOVE = POOLS_PER_SHARD * 3 // 2
_SHRINK_BELOW = POOLS_PER_SHARD // 4

Pool = tuple[wire.Endpoint, ...]
Pools = dict[str, Pool]


class Bundle(Struct, frozen=True):
    """One whole configuration. Bundles with the same id are the same configuration."""

    id: str
    manifest: bytes
    files: dict[str, bytes]


class GhostFiles:
    """The shards of the configuration that is wanted."""

    def __init__(self) -> None:
        self._routing: dict[int, tuple[str, bytes]] = {}
        self._endpoints: dict[int, tuple[str, bytes]] = {}
        self._pools: list[Pools] = [{}]
        self._count = 0

    def update(self, routing: Mapping[int, bytes | None], pools: Mapping[str, Pool | None]) -> None:
        """Take changes in; None is a shard or a pool that is gone."""
        for shard, content in routing.items():
            _put(self._routing, "routing", shard, content)
        touched = {self._set_pool(name, pool) for name, pool in pools.items()}
        if self._reshard():
            self._endpoints.clear()
            touched = set(range(len(self._pools)))
        for shard in touched:
            members = self._pools[shard]
            content = msgspec.json.encode(wire.Endpoints(version=2, pools=members), order="sorted") if members else None
            _put(self._endpoints, "endpoints", shard, content)

    def bundle(self) -> Bundle:
        routing = tuple(self._routing[shard] for shard in sorted(self._routing))
        endpoints = tuple(self._endpoints[shard] for shard in sorted(self._endpoints))
        names = tuple(name for name, _ in routing), tuple(name for name, _ in endpoints)
        identity = content_hash("\n".join((*names[0], *names[1])).encode())
        manifest = wire.Manifest(version=2, id=identity, routing=names[0], endpoints=names[1])
        return Bundle(identity, msgspec.json.encode(manifest), dict((*routing, *endpoints)))

    def _set_pool(self, name: str, pool: Pool | None) -> int:
        shard = crc32(name.encode()) % len(self._pools)
        members = self._pools[shard]
        self._count -= name in members
        if pool is None:
            members.pop(name, None)
        else:
            members[name] = pool
            self._count += 1
        return shard

    def _reshard(self) -> bool:
        shards = len(self._pools)
        while self._count > shards * _GROW_ABOVE:
            shards *= 2
        while shards > 1 and self._count < shards * _SHRINK_BELOW:
            shards //= 2
        if shards == len(self._pools):
            return False
        spread: list[Pools] = [{} for _ in range(shards)]
        for members in self._pools:
            for name, pool in members.items():
                spread[crc32(name.encode()) % shards][name] = pool
        self._pools = spread
        return True


def _put(shards: dict[int, tuple[str, bytes]], kind: str, shard: int, content: bytes | None) -> None:
    if content is None:
        shards.pop(shard, None)
    else:
        shards[shard] = (f"{kind}-{shard}-{content_hash(content)}.json", content)
