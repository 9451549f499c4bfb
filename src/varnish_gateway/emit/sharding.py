"""Spread named values over shards, and change the number of shards rarely.

In:   values by name, and the rules of one kind of shard.
Out:  the members of every shard, and which shards a change touched.
Pure. The number of shards is a power of two. It doubles when shards become too full and halves only
when they are far from full, so a value that comes and goes at a boundary moves nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar
from zlib import crc32

from msgspec import Struct

V = TypeVar("V")


def shard_of(name: str, shards: int, *, spare_first: bool = False) -> int:
    """Return the shard that holds a name; readers and writers agree on it.

    With ``spare_first``, several shards leave the first one empty.
    """
    if not spare_first:
        return crc32(name.encode()) % shards
    return 0 if shards == 1 else 1 + crc32(name.encode()) % (shards - 1)


class ShardRules(Struct, frozen=True, kw_only=True):
    """How full shards become.

    ``grow_above`` and ``shrink_below`` are values per shard on average. ``most_bytes`` limits a shard
    that holds several values; None means that size doesn't count. Beyond ``enough`` shards, a shard becomes
    fuller instead, unless the total size needs more: users choose names, so they can make large values meet in
    one shard. ``spare_first`` as in ``shard_of``.
    """

    grow_above: int
    shrink_below: float
    most_bytes: int | None = None
    most_shards: int = 8192
    enough: int = 8192
    spare_first: bool = False

    def fitting(self, shards: int, values: int, size: int, beside: int = 0) -> int:
        """Return how many shards hold that many values of that size together, starting from the present number.

        ``beside`` is the size of what lies beside the values where there is one shard.
        """
        while values > self.grow_above * shards and shards < self.enough:
            shards *= 2
        while shards > 1 and values < self.shrink_below * shards:
            if not self._is_small(size + (beside if shards == 2 else 0), shards):
                break
            shards //= 2
        return shards

    def may_double(self, shards: int, size: int) -> bool:
        """Whether there may be more shards because one of them is too large."""
        return shards < self.most_shards and (shards < self.enough or not self._is_small(size, shards))

    def _is_small(self, size: int, shards: int) -> bool:
        return self.most_bytes is None or size < self.most_bytes * shards // 8


class ShardedMap(Generic[V]):
    """Values by name. Start with the number of shards already in use, if any."""

    def __init__(self, rules: ShardRules, shards: int = 1, *, size: Callable[[V], int] = lambda _: 0) -> None:
        self._rules = rules
        self._size = size
        self._members: list[dict[str, V]] = [{} for _ in range(shards)]
        self._sizes = [0] * shards
        self._values = 0
        self._beside = 0

    def __len__(self) -> int:
        """Return the number of shards."""
        return len(self._members)

    def __getitem__(self, shard: int) -> Mapping[str, V]:
        return self._members[shard]

    def size_of(self, shard: int) -> int:
        """Return the size of all values of a shard."""
        return self._sizes[shard]

    def update(self, values: Mapping[str, V | None], *, beside: int | None = None) -> set[int]:
        """Replace values, None removes one; return the shards that changed, all of them after a resize.

        ``beside`` is the size of what lies beside the values of the first shard, None where that didn't change. Where
        both are too large for one shard, there are several, whose first one has no values if ``spare_first``.
        """
        before = len(self)
        if beside is not None:
            self._beside = beside
        touched = {shard for name, value in values.items() if (shard := self._put(name, value)) is not None}
        self._fit({*touched, 0})
        return touched if len(self) == before else set(range(len(self)))

    def resize(self, shards: int) -> None:
        """Use that many shards, or more if the values don't fit into them."""
        self._spread(shards)
        self._fit(range(shards))

    def _put(self, name: str, value: V | None) -> int | None:
        """Return the shard if its members changed."""
        shard = shard_of(name, len(self), spare_first=self._rules.spare_first)
        members = self._members[shard]
        before = members.get(name)
        if before == value:
            return None
        self._values += (value is not None) - (before is not None)
        self._sizes[shard] += self._size_of(value) - self._size_of(before)
        if value is None:
            del members[name]
        else:
            members[name] = value
        return shard

    def _size_of(self, value: V | None) -> int:
        return 0 if value is None else self._size(value)

    def _fit(self, touched: Iterable[int]) -> None:
        size = sum(self._sizes)
        shards = self._rules.fitting(len(self), self._values, size, self._beside)
        if shards != len(self):
            self._spread(shards)
            touched = range(shards)
        while any(self._is_too_large(shard) for shard in touched) and self._rules.may_double(len(self), size):
            self._spread(2 * len(self))
            touched = range(len(self))

    def _is_too_large(self, shard: int) -> bool:
        most = self._rules.most_bytes
        if most is None or not self._members[shard]:
            return False
        if len(self) == 1 and self._beside + self._sizes[shard] > most:
            return self._beside > 0 or len(self._members[shard]) > 1
        return self._sizes[shard] > most and len(self._members[shard]) > 1

    def _spread(self, shards: int) -> None:
        former = self._members
        self._members, self._sizes = [{} for _ in range(shards)], [0] * shards
        for members in former:
            for name, value in members.items():
                shard = shard_of(name, shards, spare_first=self._rules.spare_first)
                self._members[shard][name] = value
                self._sizes[shard] += self._size(value)
