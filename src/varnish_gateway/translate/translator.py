"""Translation, incrementally.

In:   any set of changed objects; None is a deletion.
Out:  ir.Delta: only what changed.

Layers, each redone only where something that it looked at changed: classes, Gateways by
themselves, ListenerSets by themselves, both among each other, routes. How many routes a listener
has is kept as a count. So one route costs the same with 10 as with 20,000.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Unpack

from msgspec import UNSET

from varnish_gateway import api, ir
from varnish_gateway.api import Key
from varnish_gateway.translate.gateway import gateways, listener_sets
from varnish_gateway.translate.gateway.effective_listeners import Served, add_served, assemble
from varnish_gateway.translate.gateway.gateway_class import translate_class
from varnish_gateway.translate.gateway.listener_set_index import ListenerSetIndex
from varnish_gateway.translate.incremental.claims import Claims
from varnish_gateway.translate.incremental.memo import Layer
from varnish_gateway.translate.incremental.view import CLASS, DRAFT, SET_DRAFT, SETTLED, Store
from varnish_gateway.translate.options import Options, Settings
from varnish_gateway.translate.route.http_route import Translated, translate_route
from varnish_gateway.translate.tls.quota import Rooms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from varnish_gateway.translate.gateway.gateways import Settled
    from varnish_gateway.translate.gateway.listener_sets import SettledSet

NO_ROUTES = Translated({}, frozenset(), ir.RouteStatus(()))


class Translator:
    """Holds the objects and their translation. The settings are those of Options.

    ``listener_sets`` is the index of ListenerSets by Gateway, as of the last update.
    """

    def __init__(self, **settings: Unpack[Settings]) -> None:
        options = Options(**settings)
        store = self._store = Store()
        self._claims = Claims()
        self.listener_sets = ListenerSetIndex()
        self._rooms = Rooms(options.tls_limit, self.listener_sets)
        self._served: dict[Key, Served] = {}
        self._attached: dict[Key, Counter[str]] = {}
        self._statuses: dict[Key, ir.Status] = {}
        self._classes = Layer("GatewayClass", store, lambda key, view: translate_class(key, options, view))
        self._drafts = Layer("Gateway", store, lambda key, view: gateways.draft(key, options, view))
        self._settled = Layer("Gateway", store, lambda key, view: gateways.settle(key, options, view))
        self._set_drafts = Layer("ListenerSet", store, lambda key, view: listener_sets.draft(key, options, view))
        self._sets = Layer("ListenerSet", store, lambda key, view: listener_sets.settle(key, options, view))
        self._routes = Layer("HTTPRoute", store, lambda key, view: translate_route(key, options, view))
        store.classes = self._classes.values
        store.drafts = self._drafts.values
        store.set_drafts = self._set_drafts.values
        store.settled = self._settled.values
        store.sets = self._sets.values
        store.winners = self._claims.winners
        store.crowded = self._rooms.crowded

    def referenced(self, kind: str) -> Collection[Key]:
        """Return the objects of a kind that translation depends on now, whether they exist or not.

        The collection is live: it changes with the next update.
        """
        return self._store.referenced(kind)

    def update(self, changed_objects: Mapping[Key, api.Object | None]) -> ir.Delta:
        """Take in changed objects; return what changed with them."""
        delta = ir.Delta()
        changed = [seen for key, obj in changed_objects.items() for seen in self._put(key, obj)]
        for key, (_, class_) in self._classes.update(changed).items():
            changed.append(key._replace(kind=CLASS))
            self._state(delta, key, class_.status if class_ else None)
        for key, (_, draft) in self._drafts.update(changed).items():
            changed.append(key._replace(kind=DRAFT))
            changed.extend(self._claims.claim(key, gateways.claims_of(key, draft)))
            self._rooms.touch(key)
        for key, (before, set_draft) in self._set_drafts.update(changed).items():
            changed.append(key._replace(kind=SET_DRAFT))
            changed.extend(self._claims.claim(key, listener_sets.claims_of(key, set_draft)))
            self._rooms.put(key, before, set_draft)
        changed.extend(self._rooms.settle(self._drafts.values, self._set_drafts.values))
        stale = {**self._settle_gateways(delta, changed), **self._settle_sets(changed)}
        for key in stale:
            self._serve(delta, key)
        for key, (was, now) in self._routes.update(changed).items():
            self._state(delta, key, now.status if now else None)
            _add_routes(delta, key, was or NO_ROUTES, now or NO_ROUTES)
            stale.update(dict.fromkeys(self._count(was or NO_ROUTES, now or NO_ROUTES)))
        for key in stale:
            self._state(delta, key, self._owner_status(key))
        return delta

    def _put(self, key: Key, obj: api.Object | None) -> Iterable[Key]:
        if key.kind == api.ListenerSet.kind:
            self.listener_sets.put(key, obj)
        return self._store.put(key, obj)

    def _settle_gateways(self, delta: ir.Delta, changed: list[Key]) -> dict[Key, None]:
        """Settle Gateways; return those that are others than before."""
        settled = self._settled.update(changed)
        for key, (was, now) in settled.items():
            if now is None:
                delta.gateways[key] = None
            elif (changes := _gateway_delta(was, now)) != ir.GatewayDelta():
                delta.gateways[key] = changes
            if was is None or now is None or was.listeners != now.listeners:
                changed.append(key._replace(kind=SETTLED[key.kind]))
        return dict.fromkeys(settled)

    def _settle_sets(self, changed: list[Key]) -> dict[Key, None]:
        """Settle ListenerSets; return those that are others than before, and their Gateways."""
        stale: dict[Key, None] = {}
        for key, (was, now) in self._sets.update(changed).items():
            stale[key] = None
            stale.update(dict.fromkeys(found.gateway for found in (was, now) if found is not None))
            if was is None or now is None or (was.gateway, was.listeners) != (now.gateway, now.listeners):
                changed.append(key._replace(kind=SETTLED[key.kind]))
        return stale

    def _serve(self, delta: ir.Delta, key: Key) -> None:
        """Say what a Gateway has to serve, its own and for its ListenerSets, where that is other than before."""
        gateway = self._settled.values.get(key)
        before = self._served.pop(key, None)
        if gateway is None:
            return
        after = self._served[key] = assemble(gateway, self._sets_of(key))
        if after != before:
            changes = delta.gateways.setdefault(key, ir.GatewayDelta())
            assert changes is not None  # noqa: S101 - for the type checker: it is there
            add_served(changes, before, after)

    def _sets_of(self, gateway: Key) -> list[SettledSet]:
        sets = self._sets.values
        return [sets[key] for key in self.listener_sets.of(gateway) if key in sets]

    def _state(self, delta: ir.Delta, key: Key, status: ir.Status | None) -> None:
        if status == self._statuses.get(key):
            return
        delta.statuses[key] = status
        if status is None:
            del self._statuses[key]
        else:
            self._statuses[key] = status

    def _count(self, before: Translated, after: Translated) -> Iterable[Key]:
        """Count a route where it is attached now; return the Gateways and ListenerSets whose counts changed."""
        for owner, listener in sorted(before.attached - after.attached):
            self._attached[owner][listener] -= 1
            yield owner
        for owner, listener in sorted(after.attached - before.attached):
            self._attached.setdefault(owner, Counter())[listener] += 1
            yield owner

    def _owner_status(self, key: Key) -> ir.GatewayStatus | ir.ListenerSetStatus | None:
        attached = self._attached.get(key, Counter())
        if (gateway := self._settled.values.get(key)) is not None:
            served = self._served[key]
            return gateways.status_of(gateway, attached, served.accepted_sets, served.overlapping)
        if (listener_set := self._sets.values.get(key)) is not None:
            return listener_sets.status_of(listener_set, attached)
        self._attached.pop(key, None)
        return None


def _gateway_delta(was: Settled | None, now: Settled) -> ir.GatewayDelta:
    configured = now.draft.configured
    if was is None:
        return ir.GatewayDelta(user_vcl=configured.user_vcl, parameters=configured.parameters)
    before = was.draft.configured
    return ir.GatewayDelta(
        user_vcl=UNSET if configured.user_vcl == before.user_vcl else configured.user_vcl,
        parameters=None if configured.parameters == before.parameters else configured.parameters,
    )


def _add_routes(delta: ir.Delta, key: Key, before: Translated, after: Translated) -> None:
    for gateway in {**before.routes, **after.routes}:
        route = after.routes.get(gateway)
        if route == before.routes.get(gateway):
            continue
        changes = delta.gateways.setdefault(gateway, ir.GatewayDelta())
        if changes is not None:  # a Gateway that is gone takes its routes with it
            changes.routes[key] = route
