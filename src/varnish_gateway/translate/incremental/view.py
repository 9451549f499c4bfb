"""Lookups of one computation, recorded.

In:   the store.
Out:  objects and derived values, and in ``View.dependencies`` every lookup, including those that
      found nothing: an object that appears later is a change like any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

from varnish_gateway.api.meta import Key, Object
from varnish_gateway.translate.incremental import quotas, tallies
from varnish_gateway.translate.incremental.dependency import Derived

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from varnish_gateway.translate.incremental.claims import Claim
    from varnish_gateway.translate.incremental.dependency import Dependency, Table
    from varnish_gateway.translate.incremental.store import ObjectStore

ObjectT = TypeVar("ObjectT", bound=Object)
T = TypeVar("T")


class View:
    __slots__ = ("_store", "dependencies")

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.dependencies: set[Dependency] = set()

    def find(self, kind: type[ObjectT], namespace: str, name: str) -> ObjectT | None:
        """Return the object of that kind and name."""
        key = Key(kind.kind, namespace, name)
        self.dependencies.add(key)
        return cast("ObjectT | None", self._store.objects.get(key))

    def validated(self, kind: type[ObjectT], namespace: str, name: str, validate: Callable[[ObjectT], T]) -> T | None:
        """Return the result of a pure function of an object; it runs once per object."""
        found = self.find(kind, namespace, name)
        if found is None:
            return None
        known = self._store.validations.setdefault(Key(kind.kind, namespace, name), {})
        if validate not in known:
            known[validate] = validate(found)
        return cast("T", known[validate])

    def members(self, kind: type[ObjectT], owner: Key) -> Mapping[Key, ObjectT]:
        """Return the objects of an indexed kind that have this owner."""
        index = self._store.indices[kind.kind]
        self.dependencies.add(index.dependency(owner))
        return cast("Mapping[Key, ObjectT]", index.members(owner))

    def get(self, table: Table[T], key: Key) -> T | None:
        """Return what an earlier layer computed for an object."""
        self.dependencies.add(Derived(table.name, key))
        return cast("T | None", self._store.tables.get(table.name, {}).get(key))

    def winner(self, place: Derived) -> Claim | None:
        """Return the claim that wins a place."""
        self.dependencies.add(place)
        return self._store.claims.winners.get(place)

    def tally(self, owner: Key) -> Mapping[str, int]:
        """Return how many values count each label of an owner."""
        self.dependencies.add(tallies.dependency(owner))
        return self._store.tallies.of(owner)

    def quota_exceeded(self, pool: Key, claimant: Key) -> int | None:
        """Return the limit of its account in a pool that a claimant exceeds, None where it doesn't."""
        self.dependencies.add(quotas.dependency(pool, claimant))
        return self._store.quotas.quota_exceeded(pool, claimant)
