"""Objects of one kind, found by the object that they name.

In:   objects that were created, changed or deleted.
Out:  the objects of an owner. A change of one of them is a change of the owner's list.
A lookup costs what it returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from varnish_gateway.translate.incremental.dependency import Derived

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from varnish_gateway.api.meta import Key, Object


class OwnerIndex:
    """``owner_of`` names the owner of an object, None for an object that has none. There is one index per kind."""

    def __init__(self, kind: str, owner_of: Callable[[Object], Key | None]) -> None:
        self.kind = kind
        self._owner_of = owner_of
        self._owners: dict[Key, Key] = {}
        self._members: dict[Key, dict[Key, Object]] = {}

    def put(self, key: Key, obj: Object | None) -> Iterable[Derived]:
        """Update the entry of an object, None for a deleted one; return the lists that changed."""
        before = self._owners.pop(key, None)
        after = self._owner_of(obj) if obj is not None else None
        if before is not None and before != after:
            del self._members[before][key]
            if not self._members[before]:
                del self._members[before]
        if obj is not None and after is not None:
            self._owners[key] = after
            self._members.setdefault(after, {})[key] = obj
        return [self.dependency(owner) for owner in dict.fromkeys((before, after)) if owner is not None]

    def dependency(self, owner: Key) -> Derived:
        """Return the dependency on the list of an owner."""
        return Derived(f"{self.kind} by owner", owner)

    def owner(self, key: Key) -> Key | None:
        """Return the owner of an object."""
        return self._owners.get(key)

    def members(self, owner: Key) -> dict[Key, Object]:
        """Return the objects of an owner, in the order in which they were added."""
        return self._members.get(owner, {})
