"""The routes that changed since the index of a Gateway was written last.

In:   changed routes with their shards, and the hashes of shards whenever an index was written.
Out:  ``fresh.json``, as long as there are few: a chaperone that has the shards from before makes
      the new ones out of it and need not read them.
Pure. Without it, after a restart or a failure, shards are read.
"""

import msgspec

from varnish_gateway.ir import wire

MOST_ROUTES = 16
"""More than these at once are not worth it: their shards are read."""

_encode = msgspec.json.Encoder().encode


class Recent:
    def __init__(self) -> None:
        self._written: tuple[str, ...] = ()
        self._changed: dict[int, dict[str, wire.Route | None]] = {}

    def add(self, shard: int, key: str, route: wire.Route | None) -> None:
        """Take in a changed route; None is one that is gone."""
        self._changed.setdefault(shard, {})[key] = route

    def forget(self) -> None:
        """Shards are others now, or it is not known what is written."""
        self._written, self._changed = (), {}

    def take(self) -> bytes | None:
        """Return the changes since the last time and begin anew; ``written`` has to follow."""
        changed, self._changed = self._changed, {}
        before, self._written = self._written, ()
        if not changed or sum(map(len, changed.values())) > MOST_ROUTES or max(changed) >= len(before):
            return None
        patches = (_patch(shard, before[shard], routes) for shard, routes in sorted(changed.items()))
        return _encode(wire.Fresh(version=2, patches=tuple(patches)))

    def written(self, hashes: tuple[str, ...]) -> None:
        """Take in what the index that was written names."""
        self._written = hashes


def _patch(shard: int, before: str, routes: dict[str, wire.Route | None]) -> wire.Patch:
    return wire.Patch(
        shard=shard,
        before=before,
        routes=tuple(route for route in routes.values() if route is not None),
        gone=tuple(key for key, route in routes.items() if route is None),
    )
