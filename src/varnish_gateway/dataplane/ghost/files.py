"""The files that ghost reads: shards named by their content, and the manifest.

In:   changed routing shards (bytes, passed through) and changed pools.
Out:  a Bundle: the manifest and every file that it names.
Pure. A change re-encodes the shards that it touches; a shard holds about POOLS_PER_SHARD pools.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from varnish_gateway.emit.routing import content_hash
from varnish_gateway.emit.sharding import ShardedMap, ShardRules
from varnish_gateway.ir import wire

POOLS_PER_SHARD = 64
_RULES = ShardRules(grow_above=POOLS_PER_SHARD * 3 // 2, shrink_below=POOLS_PER_SHARD // 4)

Pool = tuple[wire.Endpoint, ...]
Pools = dict[str, Pool]


class Bundle(Struct, frozen=True):
    """One whole configuration. Bundles with the same id are the same configuration."""

    id: str
    manifest: bytes
    files: dict[str, bytes]


class GhostFiles:
    """The shards of the desired configuration."""

    def __init__(self) -> None:
        self._routing: dict[int, tuple[str, bytes]] = {}
        self._endpoints: dict[int, tuple[str, bytes]] = {}
        self._pools = ShardedMap[Pool](_RULES)

    def update(self, routing: Mapping[int, bytes | None], pools: Mapping[str, Pool | None]) -> None:
        """Apply changes; None is a shard or a pool that is gone."""
        for shard, content in routing.items():
            _put(self._routing, "routing", shard, content)
        before = len(self._pools)
        touched = self._pools.update(pools)
        if len(self._pools) != before:
            self._endpoints.clear()
        for shard in touched:
            _put(self._endpoints, "endpoints", shard, _encoded(self._pools[shard]))

    def bundle(self) -> Bundle:
        routing = tuple(self._routing[shard] for shard in sorted(self._routing))
        endpoints = tuple(self._endpoints[shard] for shard in sorted(self._endpoints))
        names = tuple(name for name, _ in routing), tuple(name for name, _ in endpoints)
        identity = content_hash("\n".join((*names[0], *names[1])).encode())
        manifest = wire.Manifest(version=2, id=identity, routing=names[0], endpoints=names[1])
        return Bundle(identity, msgspec.json.encode(manifest), dict((*routing, *endpoints)))


def _encoded(pools: Mapping[str, Pool]) -> bytes | None:
    """Return the text of a shard, None for one without pools."""
    return msgspec.json.encode(wire.Endpoints(version=2, pools=dict(pools)), order="sorted") if pools else None


def _put(shards: dict[int, tuple[str, bytes]], kind: str, shard: int, content: bytes | None) -> None:
    if content is None:
        shards.pop(shard, None)
    else:
        shards[shard] = (f"{kind}-{shard}-{content_hash(content)}.json", content)
