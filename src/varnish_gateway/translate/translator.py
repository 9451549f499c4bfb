"""Translation, incrementally.

In:   any set of changed objects; None is a deletion.
Out:  ir.Delta: only what changed.

Four layers, each redone only where something that it looked at changed: classes, Gateways
by themselves, Gateways among each other, routes. How many routes a listener has is kept as
a count. So one route costs the same with 10 as with 20,000.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Unpack

from msgspec import UNSET

from varnish_gateway import api, ir
from varnish_gateway.api import Key
from varnish_gateway.translate import gateways
from varnish_gateway.translate.classes import translate_class
from varnish_gateway.translate.layer import Layer
from varnish_gateway.translate.options import Options, Settings
from varnish_gateway.translate.ports import Ports
from varnish_gateway.translate.routes import Translated, translate_route
from varnish_gateway.translate.view import CLASS, DRAFT, PORT, SETTLED, Store

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from varnish_gateway.translate.gateways import Draft, Settled

NO_ROUTES = Translated({}, frozenset(), ir.RouteStatus(()))


class Translator:
    """Holds the objects and what they come to. The settings are those of Options."""

    def __init__(self, **settings: Unpack[Settings]) -> None:
        options = Options(**settings)
        store = self._store = Store()
        self._ports = Ports()
        self._attached: dict[Key, Counter[str]] = {}
        self._statuses: dict[Key, ir.Status] = {}
        self._classes = Layer("GatewayClass", store, lambda key, view: translate_class(key, options, view))
        self._drafts = Layer("Gateway", store, lambda key, view: gateways.draft(key, options, view))
        self._settled = Layer("Gateway", store, lambda key, view: gateways.settle(key, options, view))
        self._routes = Layer("HTTPRoute", store, lambda key, view: translate_route(key, options, view))
        store.classes = self._classes.values
        store.drafts = self._drafts.values
        store.settled = self._settled.values
        store.port_owners = self._ports.owners

    def update(self, changed_objects: Mapping[Key, api.Object | None]) -> ir.Delta:
        """Take in changed objects; return what changed with them."""
        delta = ir.Delta()
        changed = [seen for key, obj in changed_objects.items() for seen in self._store.put(key, obj)]
        for key, (_, class_) in self._classes.update(changed).items():
            changed.append(key._replace(kind=CLASS))
            self._state(delta, key, class_.status if class_ else None)
        for key, (_, draft) in self._drafts.update(changed).items():
            changed.append(key._replace(kind=DRAFT))
            changed.extend(self._claim(key, draft))
        stale: dict[Key, None] = {}
        for key, (was, now) in self._settled.update(changed).items():
            stale[key] = None
            if now is None:
                delta.gateways[key] = None
            elif (changes := _gateway_delta(was, now)) != ir.GatewayDelta():
                delta.gateways[key] = changes
            if was is None or now is None or was.listeners != now.listeners:
                changed.append(key._replace(kind=SETTLED))
        for key, (before, after) in self._routes.update(changed).items():
            self._state(delta, key, after.status if after else None)
            _add_routes(delta, key, before or NO_ROUTES, after or NO_ROUTES)
            stale.update(dict.fromkeys(self._count(before or NO_ROUTES, after or NO_ROUTES)))
        for key in stale:
            self._state(delta, key, self._gateway_status(key))
        return delta

    def _state(self, delta: ir.Delta, key: Key, status: ir.Status | None) -> None:
        if status == self._statuses.get(key):
            return
        delta.statuses[key] = status
        if status is None:
            del self._statuses[key]
        else:
            self._statuses[key] = status

    def _claim(self, key: Key, draft: Draft | None) -> Iterable[Key]:
        ports, created = (draft.ports, draft.created) if draft else (frozenset[int](), 0)
        return [Key(PORT, "", str(port)) for port in self._ports.claim(key, ports, created=created)]

    def _count(self, before: Translated, after: Translated) -> Iterable[Key]:
        """Count a route where it is attached now; return the Gateways whose counts changed."""
        for gateway, listener in sorted(before.attached - after.attached):
            self._attached[gateway][listener] -= 1
            yield gateway
        for gateway, listener in sorted(after.attached - before.attached):
            self._attached.setdefault(gateway, Counter())[listener] += 1
            yield gateway

    def _gateway_status(self, key: Key) -> ir.GatewayStatus | None:
        gateway = self._settled.values.get(key)
        if gateway is None:
            self._attached.pop(key, None)
            return None
        return gateways.status_of(gateway, self._attached.get(key, Counter()))


def _gateway_delta(was: Settled | None, now: Settled) -> ir.GatewayDelta:
    listeners, configured, tls = gateways.served(now), now.draft.configured, gateways.tls_of(now)
    if was is None:
        return ir.GatewayDelta(
            listeners=listeners,
            user_vcl=configured.user_vcl,
            parameters=configured.parameters,
            tls=tls if tls.ports else None,  # a Gateway begins without
        )
    before = was.draft.configured
    return ir.GatewayDelta(
        listeners=None if listeners == gateways.served(was) else listeners,
        user_vcl=UNSET if configured.user_vcl == before.user_vcl else configured.user_vcl,
        parameters=None if configured.parameters == before.parameters else configured.parameters,
        tls=None if tls == gateways.tls_of(was) else tls,
    )


def _add_routes(delta: ir.Delta, key: Key, before: Translated, after: Translated) -> None:
    for gateway in {**before.routes, **after.routes}:
        route = after.routes.get(gateway)
        if route == before.routes.get(gateway):
            continue
        changes = delta.gateways.setdefault(gateway, ir.GatewayDelta())
        if changes is not None:  # a Gateway that is gone takes its routes with it
            changes.routes[key] = route
