"""The routing of a Gateway, read from its ConfigMaps.

In:   texts of shards, and the index that names the shards of one configuration.
Out:  the shards that differ from the serving ones, once all of them are consistent.
Pure. A change costs the shards that it touches.

A shard may be newer than the index, as the operator writes the index last. It is accepted if its own
number of shards equals that of the index; otherwise it belongs to another index.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec import Struct

from varnish_gateway import errors
from varnish_gateway.dataplane.ghost.version1 import routing_shard
from varnish_gateway.dataplane.jsontext import read_json
from varnish_gateway.emit.names import FRESH
from varnish_gateway.emit.routing import MOST_SHARDS, content_hash, endpoint_namespaces, patched
from varnish_gateway.ir import wire


class RoutingShard(Struct, frozen=True):
    """One shard. ``content`` is what ghost reads, ``hash`` is that of the text in the ConfigMap."""

    content: bytes
    hash: str
    shards: int
    namespaces: frozenset[str]
    listeners: tuple[wire.Listener, ...] = ()


def read_shard(text: bytes, number: int, source: str, namespace: str) -> RoutingShard:
    """Return the shard of this number; BadDocument names source and what is wrong."""
    content, routing = routing_shard(text, source, namespace)
    if routing.shard != number:
        raise errors.BadDocument(f"{source}: it is shard {routing.shard}, where shard {number} is expected")
    namespaces = endpoint_namespaces(routing.routes)
    return RoutingShard(content, content_hash(text), routing.shards, namespaces, tuple(routing.listeners))


def read_index(text: str | None, source: str) -> wire.Index:
    """Return the index; without one there is shard 0 alone."""
    if text is None:
        return wire.Index(version=2, shards=("",))
    index = read_json(text, wire.Index, source)
    if not 1 <= len(index.shards) <= MOST_SHARDS:
        raise errors.BadDocument(f"{source}: {len(index.shards)} shards are not from 1 to {MOST_SHARDS}")
    return index


def read_patches(text: str | None) -> tuple[wire.Patch, ...]:
    """Return the patches; none if they can't be read, for the shards themselves can be fetched."""
    if text is None:
        return ()
    try:
        return read_json(text, wire.Fresh, FRESH).patches
    except errors.BadDocument:
        return ()


def check_fits(shard: RoutingShard, index: wire.Index, source: str) -> None:
    """Raise BadDocument if a shard belongs to another index."""
    if shard.shards != len(index.shards):
        raise errors.BadDocument(f"{source}: it is one of {shard.shards} shards, and the index has {len(index.shards)}")


class ShardCache:
    """The serving shards, and shards that were read for the next index."""

    def __init__(self, serving: Mapping[int, RoutingShard] | None = None) -> None:
        self._serving = dict(serving or {})
        self._next: dict[int, RoutingShard] = {}
        self._namespaces = Counter(_each_namespace(self._serving.values()))
        self._index: tuple[str, ...] = ()  # the hashes of the serving index
        self._differing: set[int] = set()  # serving shards whose hash the index does not name

    @property
    def namespaces(self) -> frozenset[str]:
        """Namespaces whose EndpointSlices the serving shards need."""
        return frozenset(self._namespaces)

    @property
    def listeners(self) -> tuple[wire.Listener, ...]:
        """The listeners of the serving shards; shard 0 has all of them."""
        return self._serving[0].listeners if 0 in self._serving else ()

    @property
    def is_ahead(self) -> bool:
        """Whether a serving shard is newer than the index.

        Either the index follows, or the operator reverts the shard, which no watch reports.
        """
        return any(number and self._index[number] for number in self._differing)

    def known(self, number: int, digest: str) -> RoutingShard | None:
        """Return the shard with this hash, if it is cached."""
        places = (self._next.get(number), self._serving.get(number))
        return next((shard for shard in places if shard is not None and shard.hash == digest), None)

    def missing(self, index: wire.Index) -> list[int]:
        """Return the numbers of the shards beyond 0 that have to be fetched."""
        suspects = self._suspects(index)
        return [number for number in suspects if number and self.known(number, index.shards[number]) is None]

    def put(self, number: int, shard: RoutingShard) -> None:
        """Cache a shard for the next index."""
        self._next[number] = shard

    def patch(self, patches: Iterable[wire.Patch], index: wire.Index, namespace: str) -> None:
        """Rebuild missing shards from cached ones plus patches; keep a result only if its hash matches the index."""
        missing = set(self.missing(index))
        for patch in patches:
            before = self.known(patch.shard, patch.before)
            if patch.shard not in missing or before is None:
                continue
            try:
                text = patched(before.content, patch)
            except msgspec.DecodeError:
                continue
            if content_hash(text) == index.shards[patch.shard]:
                self.put(patch.shard, read_shard(text, patch.shard, FRESH, namespace))

    def new_namespaces(self, index: wire.Index) -> frozenset[str]:
        """Return the namespaces that the shards of an index need and the serving ones don't.

        Raise BadDocument while the shards are inconsistent.
        """
        changed = self._changed(index)
        return frozenset(_each_namespace(shard for shard in changed.values() if shard)) - self._namespaces.keys()

    def update(self, index: wire.Index) -> dict[int, bytes | None]:
        """Make the shards of an index the serving ones; return what changed. Raise BadDocument while inconsistent."""
        changed = self._changed(index)
        suspects = self._suspects(index)
        for number, shard in changed.items():
            before = self._serving.pop(number, None)
            if shard is not None:
                self._serving[number] = shard
                self._namespaces.update(shard.namespaces)
            if before is not None:
                self._forget(before.namespaces)
        self._differing = {number for number in suspects if self._serving[number].hash != index.shards[number]}
        self._index = index.shards
        self._next.clear()
        return {number: shard.content if shard else None for number, shard in changed.items()}

    def _forget(self, namespaces: Iterable[str]) -> None:
        for namespace in namespaces:
            self._namespaces[namespace] -= 1
            if not self._namespaces[namespace]:
                del self._namespaces[namespace]

    def _suspects(self, index: wire.Index) -> list[int]:
        """Return the shards that may have changed; the index names all others by the same hash as before."""
        if len(index.shards) != len(self._index):
            return list(range(len(index.shards)))
        pairs = enumerate(zip(index.shards, self._index, strict=True))
        return sorted(self._differing | {number for number, (new, old) in pairs if new != old})

    def _changed(self, index: wire.Index) -> dict[int, RoutingShard | None]:
        """Return what differs from the serving shards; a cached one of another index leaves the serving one."""
        shards = len(index.shards)
        changed: dict[int, RoutingShard | None] = {}
        if len(self._index) != shards:
            changed = {number: None for number in self._serving if number >= shards}
        for number in self._suspects(index):
            shard, before = self._choose(number, index.shards[number], shards), self._serving.get(number)
            if shard is None:
                raise errors.BadDocument(f"shard {number} of {shards} does not exist yet")
            if before is None or before.hash != shard.hash:
                changed[number] = shard
        return changed

    def _choose(self, number: int, digest: str, shards: int) -> RoutingShard | None:
        places = (self._next.get(number), self._serving.get(number))
        fitting = [shard for shard in places if shard is not None and shard.shards == shards]
        return next((shard for shard in fitting if shard.hash == digest), fitting[0] if fitting else None)


def _each_namespace(shards: Iterable[RoutingShard]) -> Iterator[str]:
    for shard in shards:
        yield from shard.namespaces
