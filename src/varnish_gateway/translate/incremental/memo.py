"""One layer of translation: a value per object, redone when something it looked at changed.

In:   the keys that changed.
Out:  the values that changed, before and after.
A change costs the values that looked at it, however many there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from varnish_gateway.translate.incremental.view import Store, View

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from varnish_gateway.api import Key

T = TypeVar("T")


class Layer(Generic[T]):
    """``compute`` is pure over its view, and returns None where there is no value."""

    def __init__(self, kind: str, store: Store, compute: Callable[[Key, View], T | None]) -> None:
        self.values: dict[Key, T] = {}
        self._kind = kind
        self._store = store
        self._compute = compute
        self._seen: dict[Key, set[Key]] = {}
        # Dicts for their order, which is that of the result: the same changes give the same answer.
        self._readers: dict[Key, dict[Key, None]] = {}

    def update(self, changed: Iterable[Key]) -> Mapping[Key, tuple[T | None, T | None]]:
        """Redo what looked at one of the keys; return what came out differently."""
        differing: dict[Key, tuple[T | None, T | None]] = {}
        for key in self._stale(changed):
            before = self.values.get(key)
            after = self._redo(key)
            if before != after:
                differing[key] = (before, after)
        return differing

    def _stale(self, changed: Iterable[Key]) -> Iterable[Key]:
        stale: dict[Key, None] = {}
        for key in changed:
            if key.kind == self._kind:
                stale[key] = None
            if readers := self._readers.get(key):
                stale.update(readers)
        return stale

    def _redo(self, key: Key) -> T | None:
        view = View(self._store)
        value = self._compute(key, view)
        if value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = value
        self._remember(key, view.seen if key in self._store.objects else set())
        return value

    def _remember(self, key: Key, seen: set[Key]) -> None:
        before = self._seen.pop(key, set())
        for gone in before - seen:
            readers = self._readers[gone]
            del readers[key]
            if not readers:
                del self._readers[gone]
                self._store.dereference(gone)
        for new in seen - before:
            if new not in self._readers:
                self._readers[new] = {}
                self._store.reference(new)
            self._readers[new][key] = None
        if seen:
            self._seen[key] = seen
