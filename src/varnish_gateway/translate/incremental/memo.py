"""One value per object, recomputed when one of its dependencies changes.

In:   the dependencies that changed.
Out:  the values that changed, before and after.
A change costs the values that depend on it, whatever the number of values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from varnish_gateway.api.meta import Key
from varnish_gateway.translate.incremental.view import View

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from varnish_gateway.translate.incremental.dependency import Dependency
    from varnish_gateway.translate.incremental.store import ObjectStore

T = TypeVar("T")


class Memo(Generic[T]):
    """Values for the objects of some kinds. ``compute`` is pure over its view; None means that there is no value."""

    def __init__(self, kinds: Collection[str], store: ObjectStore, compute: Callable[[Key, View], T | None]) -> None:
        self.values: dict[Key, T] = {}
        self._kinds = kinds
        self._store = store
        self._compute = compute
        self._dependencies: dict[Key, set[Dependency]] = {}
        # Dicts because they keep an order: equal changes give equal results in an equal order.
        self._dependents: dict[Dependency, dict[Key, None]] = {}

    def update(self, changed: Iterable[Dependency]) -> Mapping[Key, tuple[T | None, T | None]]:
        """Recompute what depends on the changes; return the values that differ."""
        differing: dict[Key, tuple[T | None, T | None]] = {}
        for key in self._stale(changed):
            before = self.values.get(key)
            after = self._recompute(key)
            if before != after:
                differing[key] = (before, after)
        return differing

    def reads(self, dependency: Dependency) -> bool:
        """Whether any value depends on this."""
        return dependency in self._dependents

    def _stale(self, changed: Iterable[Dependency]) -> Iterable[Key]:
        stale: dict[Key, None] = {}
        for dependency in changed:
            if isinstance(dependency, Key) and dependency.kind in self._kinds:
                stale[dependency] = None
            if dependents := self._dependents.get(dependency):
                stale.update(dependents)
        return stale

    def _recompute(self, key: Key) -> T | None:
        view = View(self._store)
        value = self._compute(key, view)
        if value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = value
        self._remember(key, view.dependencies if key in self._store.objects else set())
        return value

    def _remember(self, key: Key, after: set[Dependency]) -> None:
        before = self._dependencies.pop(key, set())
        for dependency in before - after:
            dependents = self._dependents[dependency]
            del dependents[key]
            if not dependents:
                del self._dependents[dependency]
                self._store.dereference(dependency)
        for dependency in after - before:
            if dependency not in self._dependents:
                self._dependents[dependency] = {}
                self._store.reference(dependency)
            self._dependents[dependency][key] = None
        if after:
            self._dependencies[key] = after
