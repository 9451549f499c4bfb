"""Desired routing of one Gateway: shards, their index, and the ConfigMaps that hold them.

In:   changed listeners, request rules and routes; what pods understand; how a write went.
Out:  the shards, and which ConfigMaps may differ from them ("dirty") or hold no shard any more
      ("surplus").
Pure. A changed route costs its own shard.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from varnish_gateway.api import Key
from varnish_gateway.emit import names
from varnish_gateway.emit.routing import STORABLE_BYTES, Shards, content_hash, request_rules, shard_of
from varnish_gateway.ir import GatewayDelta, GatewayState, wire
from varnish_gateway.ir.capabilities import ALL
from varnish_gateway.operator.plan.patches import RoutePatches
from varnish_gateway.operator.plan.withholding import Routes, Withholding
from varnish_gateway.translate.conditions import listed


class EncodedShard(NamedTuple):
    text: bytes
    hash: str


class DesiredRouting:
    """``hashes`` are those of all shards, as the index names them; it leaves out shard 0, which lies beside it.

    ``in_use`` is the number of shards that the cluster holds, so that a restart moves no route.
    """

    def __init__(self, gateway: Key, in_use: int, understood: frozenset[str] = ALL) -> None:
        self._gateway = gateway
        self.withholding = Withholding(understood)
        self._shards = Shards(in_use, most_bytes=STORABLE_BYTES)
        self._patches = RoutePatches()
        self.shards = {number: _shard(text) for number, text in self._shards.all().items()}
        self.dirty: set[int] = set()
        self.surplus: set[int] = set()
        self.config_maps = self._new_config_maps()
        self.hashes = self._all_hashes()
        self.index = self._new_index()

    def __len__(self) -> int:
        return len(self._shards)

    @property
    def remark(self) -> str:
        """What can't be stored, for people; "" where that is nothing."""
        left_out = self._shards.left_out
        if not left_out:
            return ""
        return (
            f"{listed(left_out, ', ')}: not served, because these routes and others whose names lead to the same "
            f"ConfigMap take more than {STORABLE_BYTES:,} bytes; rename or split them"
        )

    def update(self, delta: GatewayDelta) -> None:
        """Apply changed listeners, request rules and routes."""
        self._update(delta.listeners, request_rules(delta.parameters), delta.routes)

    def express(self, understood: frozenset[str], state: GatewayState) -> bool:
        """Express routing by what pods understand; return whether that is something else than before."""
        if understood == self.withholding.understood:
            return False
        affected = self.withholding.change(understood, state.routes)
        self._update(state.listeners, request_rules(state.parameters), {key: state.routes[key] for key in affected})
        self.dirty.add(0)  # its ConfigMap names the capabilities
        return True

    def _update(
        self, listeners: tuple[wire.Listener, ...] | None, requests: wire.RequestRules | None, routes: Routes
    ) -> None:
        routes, requests = self.withholding.routes(routes), self.withholding.requests(requests)
        listeners = self.withholding.listeners(listeners)
        self._replace(self._shards.update(listeners=listeners, requests=requests, routes=routes))
        if len(self) > 1:
            for (_, namespace, name), route in routes.items():
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
