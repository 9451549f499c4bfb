"""Desired routing of one Gateway: shards, their index, and the ConfigMaps that hold them.

In:   changed listeners, request rules and routes; how a write went.
Out:  the shards, and which ConfigMaps may differ from them ("dirty") or hold no shard any more
      ("surplus").
Pure. A changed route costs its own shard.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from varnish_gateway.api import Key
from varnish_gateway.emit import names
from varnish_gateway.emit.routing import Shards, content_hash, request_rules, shard_of
from varnish_gateway.ir import GatewayDelta, wire
from varnish_gateway.operator.plan.patches import RoutePatches


class EncodedShard(NamedTuple):
    text: bytes
    hash: str


class DesiredRouting:
    """``hashes`` are those of all shards, as the index names them; it leaves out shard 0, which lies beside it.

    ``in_use`` is the number of shards that the cluster holds, so that a restart moves no route.
    """

    def __init__(self, gateway: Key, in_use: int) -> None:
        self._gateway = gateway
        self._shards = Shards(in_use)
        self._patches = RoutePatches()
        self.shards = {number: _shard(text) for number, text in self._shards.all().items()}
        self.dirty: set[int] = set()
        self.surplus: set[int] = set()
        self.config_maps = self._new_config_maps()
        self.hashes = self._all_hashes()
        self.index = self._new_index()

    def __len__(self) -> int:
        return len(self._shards)

    def update(self, delta: GatewayDelta) -> None:
        """Apply changed listeners, request rules and routes."""
        requests = request_rules(delta.parameters)
        self._replace(self._shards.update(listeners=delta.listeners, requests=requests, routes=delta.routes))
        if len(self) > 1:
            for (_, namespace, name), route in delta.routes.items():
                self._patches.add(shard_of(namespace, name, len(self)), f"{namespace}/{name}", route)

    def resize(self, in_use: int | None) -> bool:
        """Use as many shards as the cluster holds, if the routes fit; return whether that changed anything.

        The number depends on history: a previous leader may have observed other moments than this operator.
        """
        if in_use is None or in_use == len(self):
            return False
        self._replace(self._shards.resize(in_use))
        return True

    def mark_dirty(self, config_map: Key | None = None) -> None:
        """Compare one ConfigMap, or all of them, with the next write."""
        self.dirty.update(self.shards if config_map is None else [self.config_maps[config_map]])

    # -- writes --------------------------------------------------------------------------

    def drain_dirty(self) -> set[int]:
        """Return the dirty shards; ``restore_dirty`` has to follow if they can't be written."""
        drained, self.dirty = self.dirty, set()
        return drained

    def restore_dirty(self, shards: set[int]) -> None:
        self.dirty |= shards

    def drain_patches(self) -> bytes | None:
        """Return the patches for chaperones that hold the previous shards; ``on_index_written`` has to follow."""
        return self._patches.drain()

    def on_index_written(self, hashes: tuple[str, ...]) -> None:
        self._patches.on_written(hashes)

    def drain_surplus(self, in_use: int) -> list[Key]:
        """Return ConfigMaps that an index of so many shards does not name."""
        drained = {number for number in self.surplus if number >= in_use}
        self.surplus -= drained
        return [self._config_map(number) for number in drained]

    # -- derived values ------------------------------------------------------------------

    def _replace(self, changed: Mapping[int, bytes | None]) -> None:
        for number, text in changed.items():
            if text is None:
                del self.shards[number]
                self.surplus.add(number)
            else:
                self.shards[number] = _shard(text)
        self.dirty.update(changed)
        self.surplus -= self.shards.keys()
        if len(self.config_maps) != len(self.shards):
            self.config_maps = self._new_config_maps()
            self._patches.reset()
            self.hashes = self._all_hashes()
        elif any(changed):  # the index does not name shard 0
            hashes = list(self.hashes)
            for number in filter(None, changed):
                hashes[number] = self.shards[number].hash
            self.hashes = tuple(hashes)
        self.index = self._new_index()

    def _config_map(self, number: int) -> Key:
        return Key("ConfigMap", self._gateway.namespace, names.config_map(self._gateway.name, number))

    def _new_config_maps(self) -> dict[Key, int]:
        return {self._config_map(number): number for number in self.shards}

    def _all_hashes(self) -> tuple[str, ...]:
        return ("", *(self.shards[number].hash for number in range(1, len(self.shards))))

    def _new_index(self) -> bytes | None:
        """Return shards.json; None for a Gateway of one shard."""
        if len(self.shards) < 2:
            return None
        return msgspec.json.encode(wire.Index(version=2, shards=self.hashes))


def _shard(text: bytes) -> EncodedShard:
    return EncodedShard(text, content_hash(text))
