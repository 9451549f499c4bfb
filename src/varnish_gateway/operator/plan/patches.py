"""The routes that changed since the index of a Gateway was written last.

In:   changed routes with their shards, and the hashes of shards whenever an index was written.
Out:  ``fresh.json``, as long as there are few: a chaperone that has the shards from before makes
      the new ones out of it and need not read them.
Pure. Without it, after a restart or a failure, shards are read.
"""

from collections.abc import Mapping

import msgspec

from varnish_gateway.ir import wire

MOST_ROUTES = 16
"""More than these at once are not worth it: their shards are read."""
MOST_BYTES = 64_000
"""What fits beside the VCL and shard 0, for certain."""

_encode = msgspec.json.Encoder().encode


class Recent:
    def __init__(self) -> None:
        self._written: tuple[str, ...] = ()
        self._changed: dict[tuple[int, str], wire.Route | None] = {}

    def add(self, shard: int, key: str, route: wire.Route | None) -> None:
        """Take in a changed route; None is one that is gone. Beyond the bound nothing is kept: nobody may ever ask."""
        if len(self._changed) <= MOST_ROUTES:
            self._changed[shard, key] = route

    def forget(self) -> None:
        """Shards are others now, or it is not known what is written."""
        self._written, self._changed = (), {}

    def take(self) -> bytes | None:
        """Return the changes since the last time and begin anew; ``written`` has to follow."""
        changed, self._changed = self._changed, {}
        before, self._written = self._written, ()
        shards = sorted({shard for shard, _ in changed})
        if not changed or len(changed) > MOST_ROUTES or shards[-1] >= len(before):
            return None
        patches = tuple(_patch(shard, before[shard], changed) for shard in shards)
        fresh = _encode(wire.Fresh(version=2, patches=patches))
        return fresh if len(fresh) <= MOST_BYTES else None

    def written(self, hashes: tuple[str, ...]) -> None:
        """Take in what the index that was written names."""
        self._written = hashes


def _patch(shard: int, before: str, changed: Mapping[tuple[int, str], wire.Route | None]) -> wire.Patch:
    routes = {key: route for (where, key), route in changed.items() if where == shard}
    return wire.Patch(
        shard=shard,
        before=before,
        routes=tuple(route for route in routes.values() if route is not None),
        gone=tuple(key for key, route in routes.items() if route is None),
    )
