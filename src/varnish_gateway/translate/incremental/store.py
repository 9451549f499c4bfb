"""The objects, everything derived from them, and which of it is in use.

In:   objects that were created, changed or deleted.
Out:  the dependencies that changed with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from varnish_gateway.translate.incremental.claims import Claims
from varnish_gateway.translate.incremental.quotas import Quotas
from varnish_gateway.translate.incremental.tallies import Tallies

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from varnish_gateway.api.meta import Key, Object
    from varnish_gateway.translate.incremental.dependency import Dependency
    from varnish_gateway.translate.incremental.index import OwnerIndex


class ObjectStore:
    """``tables`` has the values of each layer by its name; ``validations`` the results of ``View.validated``."""

    def __init__(self, *indices: OwnerIndex, quotas: Quotas | None = None) -> None:
        self.objects: dict[Key, Object] = {}
        self.indices: dict[str, OwnerIndex] = {index.kind: index for index in indices}
        self.tables: dict[str, Mapping[Key, Any]] = {}
        self.claims = Claims()
        self.tallies = Tallies()
        self.quotas = quotas or Quotas(0, 0)
        self.validations: dict[Key, dict[Callable[..., Any], Any]] = {}
        self._referenced: dict[str, dict[Dependency, int]] = {}

    def put(self, key: Key, obj: Object | None) -> Iterable[Dependency]:
        """Store an object, or delete it with None; return the dependencies that changed with it."""
        if self.objects.get(key) == obj:  # only its status changed, which is not part of the object
            return ()
        self.objects.pop(key, None)
        self.validations.pop(key, None)
        if obj is not None:
            self.objects[key] = obj
        index = self.indices.get(key.kind)
        return (key, *(index.put(key, obj) if index else ()))

    def reference(self, dependency: Dependency) -> None:
        """Count one more layer that depends on something."""
        counts = self._referenced.setdefault(dependency[0], {})
        counts[dependency] = counts.get(dependency, 0) + 1

    def dereference(self, dependency: Dependency) -> None:
        """Count one layer less that depends on something."""
        counts = self._referenced[dependency[0]]
        counts[dependency] -= 1
        if not counts[dependency]:
            del counts[dependency]

    def referenced(self, kind: str) -> Collection[Dependency]:
        """Return the dependencies of a kind that any layer has, whether the objects exist or not."""
        return self._referenced.get(kind, {}).keys()
