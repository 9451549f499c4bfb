"""The routing of a Gateway as it lies in ConfigMaps.

In:   texts of shards, and the index that says which belong together.
Out:  the shards that differ from those that serve, once all of them fit together.
Pure. A change costs the shards that it touches.

A shard may be newer than the index says, as the index is written last; it is taken if it is
one of as many shards as the index has. Shards of another number belong to another index.
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


class Shard(Struct, frozen=True):
    """One shard; ``content`` is what ghost reads, ``hash`` that of the text as it was written."""

    content: bytes
    hash: str
    shards: int
    namespaces: frozenset[str]


def read_shard(text: bytes, number: int, source: str, namespace: str) -> Shard:
    """Return the shard of this number; BadDocument names source and what is wrong."""
    content, routing = routing_shard(text, source, namespace)
    if routing.shard != number:
        raise errors.BadDocument(f"{source}: it is shard {routing.shard}, where shard {number} belongs")
    return Shard(content, content_hash(text), routing.shards, endpoint_namespaces(routing.routes))


def read_index(text: str | None, source: str) -> wire.Index:
    """Return the index; without one there is shard 0 alone."""
    if text is None:
        return wire.Index(version=2, shards=("",))
    index = read_json(text, wire.Index, source)
    if not 1 <= len(index.shards) <= MOST_SHARDS:
        raise errors.BadDocument(f"{source}: {len(index.shards)} shards are not from 1 to {MOST_SHARDS}")
    return index


def read_patches(text: str | None) -> tuple[wire.Patch, ...]:
    """Return the newest changes, none where they can't be read: the shards themselves can."""
    if text is None:
        return ()
    try:
        return read_json(text, wire.Fresh, FRESH).patches
    except errors.BadDocument:
        return ()


def check_fits(shard: Shard, index: wire.Index, source: str) -> None:
    """Raise BadDocument if a shard belongs to another index."""
    if shard.shards != len(index.shards):
        raise errors.BadDocument(f"{source}: it is one of {shard.shards} shards, and the index has {len(index.shards)}")


class Shelf:
    """The shards that serve, and those that came for the next index."""

    def __init__(self, serving: Mapping[int, Shard] | None = None) -> None:
        self._serving = dict(serving or {})
        self._fresh: dict[int, Shard] = {}
        self._named = Counter(_each_namespace(self._serving.values()))
        self._taken: tuple[str, ...] = ()  # what the index said that serves
        self._otherwise: set[int] = set()  # serving shards that are not those which it names

    @property
    def namespaces(self) -> frozenset[str]:
        """Namespaces whose EndpointSlices the serving shards need."""
        return frozenset(self._named)

    @property
    def is_ahead(self) -> bool:
        """Whether a shard that was read on its own serves, and is not the one that the index names.

        Either the index follows, or the shard is taken back; of that nobody tells.
        """
        return any(number and self._taken[number] for number in self._otherwise)

    def known(self, number: int, digest: str) -> Shard | None:
        """Return the shard with this text, if it is here already."""
        places = (self._fresh.get(number), self._serving.get(number))
        return next((shard for shard in places if shard is not None and shard.hash == digest), None)

    def wanting(self, index: wire.Index) -> list[int]:
        """Return the numbers of the shards beyond 0 that have to be asked for."""
        asked = self._in_question(index)
        return [number for number in asked if number and self.known(number, index.shards[number]) is None]

    def put(self, number: int, shard: Shard) -> None:
        """Keep a shard until an index takes it."""
        self._fresh[number] = shard

    def freshen(self, patches: Iterable[wire.Patch], index: wire.Index, namespace: str) -> None:
        """Make shards that have to be asked for out of those that are here, where that gives the very text."""
        asked = set(self.wanting(index))
        for patch in patches:
            before = self.known(patch.shard, patch.before)
            if patch.shard not in asked or before is None:
                continue
            try:
                text = patched(before.content, patch)
            except msgspec.DecodeError:
                continue
            if content_hash(text) == index.shards[patch.shard]:
                self.put(patch.shard, read_shard(text, patch.shard, FRESH, namespace))

    def arriving(self, index: wire.Index) -> frozenset[str]:
        """Return the namespaces that the shards of index need and the serving ones don't.

        Raise BadDocument while they don't fit together.
        """
        changed = self._changed(index)
        return frozenset(_each_namespace(shard for shard in changed.values() if shard)) - self._named.keys()

    def take(self, index: wire.Index) -> dict[int, bytes | None]:
        """Let the shards of index serve; return what changed. Raise BadDocument while they don't fit together."""
        changed = self._changed(index)
        asked = self._in_question(index)
        for number, shard in changed.items():
            before = self._serving.pop(number, None)
            if shard is not None:
                self._serving[number] = shard
                self._named.update(shard.namespaces)
            if before is not None:
                self._forget(before.namespaces)
        self._otherwise = {number for number in asked if self._serving[number].hash != index.shards[number]}
        self._taken = index.shards
        self._fresh.clear()
        return {number: shard.content if shard else None for number, shard in changed.items()}

    def _forget(self, namespaces: Iterable[str]) -> None:
        for namespace in namespaces:
            self._named[namespace] -= 1
            if not self._named[namespace]:
                del self._named[namespace]

    def _in_question(self, index: wire.Index) -> list[int]:
        """Return the shards that need a look: all others are those that the index names, as before."""
        if len(index.shards) != len(self._taken):
            return list(range(len(index.shards)))
        pairs = enumerate(zip(index.shards, self._taken, strict=True))
        return sorted(self._otherwise | {number for number, (new, old) in pairs if new != old})

    def _changed(self, index: wire.Index) -> dict[int, Shard | None]:
        """Return what differs from the serving shards; a fresh one that doesn't fit leaves the serving one."""
        shards = len(index.shards)
        changed: dict[int, Shard | None] = {}
        if len(self._taken) != shards:
            changed = {number: None for number in self._serving if number >= shards}
        for number in self._in_question(index):
            shard, before = self._choose(number, index.shards[number], shards), self._serving.get(number)
            if shard is None:
                raise errors.BadDocument(f"shard {number} of {shards} is not there yet")
            if before is None or before.hash != shard.hash:
                changed[number] = shard
        return changed

    def _choose(self, number: int, digest: str, shards: int) -> Shard | None:
        places = (self._fresh.get(number), self._serving.get(number))
        fitting = [shard for shard in places if shard is not None and shard.shards == shards]
        return next((shard for shard in fitting if shard.hash == digest), fitting[0] if fitting else None)


def _each_namespace(shards: Iterable[Shard]) -> Iterator[str]:
    for shard in shards:
        yield from shard.namespaces
