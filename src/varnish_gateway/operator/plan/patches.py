"""Routes that changed since the index of a Gateway was last written.

In:   changed routes with their shards, and the shard hashes of every index that was written.
Out:  ``fresh.json``, while few routes changed: a chaperone that holds the previous shards patches
      them instead of reading the new ones.
Pure. After a restart or a failed write there are no patches, and chaperones read the shards.
"""

from collections.abc import Mapping

import msgspec

from varnish_gateway.ir import wire

MOST_ROUTES = 16
"""With more routes than this, chaperones read the shards instead."""
MOST_BYTES = 64_000
"""Always fits into the ConfigMap, beside the VCL and shard 0."""

_encode = msgspec.json.Encoder().encode


class RoutePatches:
    def __init__(self) -> None:
        self._written: tuple[str, ...] = ()
        self._changed: dict[tuple[int, str], wire.Route | None] = {}

    def add(self, shard: int, key: str, route: wire.Route | None) -> None:
        """Add a changed route, None for a deleted one. Beyond the limit nothing is kept: a standby never drains."""
        if len(self._changed) <= MOST_ROUTES:
            self._changed[shard, key] = route

    def __len__(self) -> int:
        return len(self._changed)

    def reset(self) -> None:
        """Start over: the number of shards changed, so no patch applies."""
        self._written, self._changed = (), {}

    def drain(self) -> bytes | None:
        """Return the changes since the index that was last written; ``on_written`` has to follow."""
        changed, self._changed = self._changed, {}
        before, self._written = self._written, ()
        shards = sorted({shard for shard, _ in changed})
        if not changed or len(changed) > MOST_ROUTES or shards[-1] >= len(before):
            return None
        patches = tuple(_patch(shard, before[shard], changed) for shard in shards)
        document = _encode(wire.Fresh(version=2, patches=patches))
        return document if len(document) <= MOST_BYTES else None

    def on_written(self, hashes: tuple[str, ...]) -> None:
        """Remember the shard hashes of the index that was written."""
        self._written = hashes


def _patch(shard: int, before: str, changed: Mapping[tuple[int, str], wire.Route | None]) -> wire.Patch:
    routes = {key: route for (its_shard, key), route in changed.items() if its_shard == shard}
    return wire.Patch(
        shard=shard,
        before=before,
        routes=tuple(route for route in routes.values() if route is not None),
        gone=tuple(key for key, route in routes.items() if route is None),
    )
