"""Translation, incrementally.

In:   any set of changed objects; None is a deletion.
Out:  ir.Delta: only what changed.

Layers run in the order of ``LAYERS``. Each recomputes only the values whose dependencies changed,
so one route costs the same with 10 as with 20,000. See layers.py for how to add one.
A layer comes after all that change what it reads: a Gateway reads who exceeds a limit on patterns, so routes and
policies are charged before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, cast

from varnish_gateway import ir
from varnish_gateway.translate import grants
from varnish_gateway.translate.gateway import (
    effective_gateway,
    gateway_class,
    gateways,
    listener_sets,
    over_quota,
    owner_status,
    route_parents,
)
from varnish_gateway.translate.gateway.listener_set_index import ListenerSetIndex
from varnish_gateway.translate.incremental.dependency import Derived
from varnish_gateway.translate.incremental.memo import Memo
from varnish_gateway.translate.incremental.quotas import Quotas
from varnish_gateway.translate.incremental.store import ObjectStore
from varnish_gateway.translate.incremental.tallies import NONE
from varnish_gateway.translate.options import OptionFields, Options
from varnish_gateway.translate.policy import (
    backend_tls,
    cache_policy,
    cache_policy_placement,
    cache_policy_status,
    placement,
)
from varnish_gateway.translate.route import http_route, versions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from varnish_gateway import api
    from varnish_gateway.api import Key
    from varnish_gateway.translate.incremental.dependency import Dependency
    from varnish_gateway.translate.layers import Layer

T = TypeVar("T")

LAYERS: Sequence[Layer[Any]] = (
    gateway_class.LAYER,
    gateways.VALIDATE,
    listener_sets.VALIDATE,
    over_quota.CERTIFICATES,
    over_quota.LISTENERS,
    gateways.RESOLVE,
    listener_sets.RESOLVE,
    route_parents.LAYER,
    versions.LAYER,
    placement.ATTACH,
    cache_policy.VALIDATE,
    cache_policy_placement.PLACE,
    effective_gateway.LAYER,
    backend_tls.VALIDATE,
    http_route.LAYER,
    backend_tls.RESOLVE,
    cache_policy_status.RESOLVE,
    owner_status.GATEWAYS,
    owner_status.LISTENER_SETS,
)


class Translator:
    """Holds the objects and their translation. The settings are those of Options.

    ``listener_sets`` is the index of ListenerSets by Gateway, as of the last update.
    """

    def __init__(self, layers: Sequence[Layer[Any]] = LAYERS, **settings: Unpack[OptionFields]) -> None:
        options = Options(**settings)
        self.listener_sets = ListenerSetIndex()
        self._store = new_store(self.listener_sets, options)
        self._layers: list[_RunningLayer[Any]] = []
        for layer in layers:
            earlier = tuple(one.memo for one in self._layers)
            self._layers.append(_RunningLayer(layer, options, self._store, earlier))

    def referenced(self, kind: str) -> Collection[Key]:
        """Return the objects of a kind that translation depends on now, whether they exist or not.

        The collection is live: it changes with the next update.
        """
        return cast("Collection[Key]", self._store.referenced(kind))

    def update(self, changed_objects: Mapping[Key, api.Object | None]) -> ir.Delta:
        """Apply changed objects; return what changed with them."""
        delta = ir.Delta()
        changed = [each for key, obj in changed_objects.items() for each in self._store.put(key, obj)]
        for layer in self._layers:
            changed.extend(layer.update(changed, delta))
        return delta


def new_store(sets: ListenerSetIndex, options: Options) -> ObjectStore:
    """Return a store with an index of every kind that is looked up by its owner."""
    quotas = Quotas(options.gateway_regexes, options.namespace_regexes)
    return ObjectStore(grants.index(), gateway_class.index(), sets, quotas=quotas)


class _RunningLayer(Generic[T]):
    """A layer with its values. ``earlier`` are those of the layers that ran before it."""

    def __init__(self, layer: Layer[T], options: Options, store: ObjectStore, earlier: Sequence[Memo[Any]]) -> None:
        compute = layer.compute
        self._layer = layer
        self._store = store
        self.memo = Memo(layer.kinds, store, lambda key, view: compute(key, options, view))
        self._finished = (*earlier, self.memo)
        store.tables[layer.table.name] = self.memo.values

    def update(self, changed: Sequence[Dependency], delta: ir.Delta) -> list[Dependency]:
        """Recompute what is stale, add its differences to the delta, and return the dependencies that changed."""
        values: list[Dependency] = []
        contributed: dict[Derived, None] = {}
        for key, (before, after) in self.memo.update(changed).items():
            values.append(Derived(self._layer.table.name, key))
            contributed.update(dict.fromkeys(self._contribute(key, before, after)))
            self._publish(delta, key, before, after)
        if self._layer.charges is not None:
            contributed.update(dict.fromkeys(self._store.quotas.apply_limits()))
        self._assert_unread(contributed)
        return [*values, *contributed]

    def _assert_unread(self, contributed: Iterable[Derived]) -> None:
        """Values that are computed already must not depend on what this layer changes: they would stay as they are."""
        for dependency in contributed:
            if any(memo.reads(dependency) for memo in self._finished):
                raise AssertionError(f"{self._layer.table.name} changes {dependency}, which an earlier layer reads")

    def _contribute(self, key: Key, before: T | None, after: T | None) -> Iterable[Derived]:
        """Update claims, tallies and quotas; return the claims and tallies that changed."""
        if (claims := self._layer.claims) is not None:
            yield from self._store.claims.update(key, {} if after is None else claims(key, after))
        if (counted := self._layer.counted) is not None:
            counted_before = NONE if before is None else counted(before)
            yield from self._store.tallies.update(counted_before, NONE if after is None else counted(after))
        if (charges := self._layer.charges) is not None:
            self._store.quotas.update(key, {} if after is None else charges(key, after))

    def _publish(self, delta: ir.Delta, key: Key, before: T | None, after: T | None) -> None:
        if (publish := self._layer.publish) is not None:
            publish(delta, key, before, after)
        if (status := self._layer.status) is not None:
            status_after = None if after is None else status(after)
            if status_after != (None if before is None else status(before)):
                delta.statuses[key] = status_after
