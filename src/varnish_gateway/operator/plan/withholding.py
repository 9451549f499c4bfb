"""Routing of one Gateway, without what its pods don't understand.

In:   routes, listeners and request rules from translation; the capabilities that all pods have.
Out:  the same as pods read them, and what is withheld.
Pure. A change of capabilities costs the routes that need them; losing one costs a look at every route.
"""

from collections.abc import Mapping

from varnish_gateway.api import Key
from varnish_gateway.emit.withholding import (
    listeners_without,
    needed_by,
    needed_by_requests,
    requests_without,
    route_without,
)
from varnish_gateway.ir import wire
from varnish_gateway.ir.capabilities import ALL, CACHE_POLICIES, NONE

Routes = Mapping[Key, wire.Route | None]


class Withholding:
    """``understood`` are the capabilities that routing is expressed with."""

    def __init__(self, understood: frozenset[str] = ALL) -> None:
        self.understood = understood
        self._routes: dict[Key, frozenset[str]] = {}  # capabilities that are withheld, by route
        self._requests = NONE  # capabilities that are withheld from request rules
        self._are_listeners_withheld = False

    def routes(self, routes: Routes) -> Routes:
        """Return routes as pods read them."""
        lacking = ALL - self.understood
        if not lacking and not self._routes:
            return routes
        for key, route in routes.items():
            needs = frozenset() if route is None else needed_by(route, lacking)
            if needs:
                self._routes[key] = needs
            else:
                self._routes.pop(key, None)
        return {key: route if route is None else route_without(route, lacking) for key, route in routes.items()}

    def listeners(self, listeners: tuple[wire.Listener, ...] | None) -> tuple[wire.Listener, ...] | None:
        """Return listeners as pods read them; None for unchanged ones."""
        if listeners is None:
            return None
        sent = listeners_without(listeners, ALL - self.understood)
        self._are_listeners_withheld = sent is not listeners
        return sent

    def requests(self, rules: wire.RequestRules | None) -> wire.RequestRules | None:
        """Return request rules as pods read them; None for unchanged ones."""
        lacking = ALL - self.understood
        if rules is not None:
            self._requests = needed_by_requests(rules, lacking)
        return requests_without(rules, lacking)

    def change(self, understood: frozenset[str], routes: Mapping[Key, wire.Route]) -> list[Key]:
        """Set what pods understand; return the routes to express again."""
        gained, lost = understood - self.understood, self.understood - understood
        self.understood = understood
        affected = [key for key, needs in self._routes.items() if needs & gained]
        if lost:
            affected += [key for key, route in routes.items() if needed_by(route, lost)]
        return list(dict.fromkeys(affected))

    @property
    def withheld(self) -> dict[str, list[Key]]:
        """The capabilities that are missed, each with the routes that need it; none where it is about all routes."""
        missed: dict[str, list[Key]] = {name: [] for name in self._requests}
        for key in sorted(self._routes):
            for name in self._routes[key]:
                missed.setdefault(name, []).append(key)
        if self._are_listeners_withheld:
            missed[CACHE_POLICIES.name] = []
        return missed
