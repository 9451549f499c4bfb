"""Which version of a route is translated, while the regular expressions of a newer one are compiled.

In:   a route, and its CompiledMatches once a program has compiled them.
Out:  RouteVersion. The previous version serves until the new one is compiled: only its own change waits for a
      route's regular expressions. Everything else about the previous version is up to date: a revoked
      ReferenceGrant, for instance, holds at once.
      ``ir.Delta.uncompiled`` lists what a program has to compile.

A route that attaches nowhere compiles none. One without regular expressions has a value only for programs that
compile elsewhere: it serves while the first regular expressions of its next version are compiled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, structs

from varnish_gateway import api, ir
from varnish_gateway.translate.incremental.dependency import Table
from varnish_gateway.translate.incremental.quotas import Charge
from varnish_gateway.translate.layers import Layer
from varnish_gateway.translate.precedence import precedence
from varnish_gateway.translate.route.compiled_matches import (
    CompiledMatches,
    compile_matches,
    has_regexes,
    unchecked_matches,
)
from varnish_gateway.translate.route.parents import answered_refs, taken_by

if TYPE_CHECKING:
    from collections.abc import Mapping

    from varnish_gateway.api import Key
    from varnish_gateway.translate.incremental.view import View
    from varnish_gateway.translate.options import Options


class RouteVersion(Struct, frozen=True):
    """``compiled`` is None for a route without regular expressions, and where it ``is_pending``.

    ``gateways`` are those that a route with regular expressions, or its next version, attaches to: there are many
    routes without, so that those only keep the route. ``uncompiled`` is the newest version, as long as it waits.
    """

    route: api.HTTPRoute
    compiled: CompiledMatches | None = None
    gateways: frozenset[Key] = frozenset()
    uncompiled: api.HTTPRoute | None = None

    @property
    def is_pending(self) -> bool:
        """Whether it is served for the first time and not compiled yet."""
        return self.uncompiled is self.route

    @property
    def is_served(self) -> bool:
        """Whether it can serve where it attaches, without anything being compiled."""
        return not self.is_pending and (self.compiled is None or bool(self.gateways))


def choose_version(key: Key, options: Options, view: View) -> RouteVersion | None:
    """Return the newest version that can be translated."""
    route = view.find(api.HTTPRoute, key.namespace, key.name)
    if route is None or not has_regexes(route):
        return None if route is None or options.compiles else RouteVersion(route)
    gateways = _gateways(route, options, view)
    if not gateways:
        return RouteVersion(route, unchecked_matches(route))
    if options.compiles:
        return RouteVersion(route, compile_matches(route), gateways)
    compiled = view.find(CompiledMatches, key.namespace, key.name)
    if compiled is not None and compiled.are_of(route):
        return RouteVersion(route, compiled, gateways)
    # This value depends on the past, as that of a cache policy does. A program that compiles everything ends with the
    # same values.
    before = view.get(VERSIONS, key)
    if before is not None and before.is_served and (serving := _gateways(before.route, options, view)):
        return structs.replace(before, gateways=serving, uncompiled=route)
    return RouteVersion(route, None, gateways, uncompiled=route)


def _gateways(route: api.HTTPRoute, options: Options, view: View) -> frozenset[Key]:
    return frozenset(taken_by(answered_refs(route, options, view)))


def charges(key: Key, version: RouteVersion) -> Mapping[Key, Charge]:
    """Return what the regular expressions of a route take of each Gateway. Those of a rejected route take nothing."""
    compiled = version.compiled
    if compiled is None or compiled.excess is not None:
        return {}
    charge = Charge(key.namespace, precedence(version.route.created, key), compiled.charges)
    return dict.fromkeys(version.gateways, charge)


def publish(delta: ir.Delta, key: Key, before: RouteVersion | None, after: RouteVersion | None) -> None:
    """Add the route that has to be compiled now, None for one that waits no longer."""
    was, now = (version.uncompiled if version else None for version in (before, after))
    if was is not now:
        delta.uncompiled[key] = now
    if before is not None and before.gateways and (after is None or not after.gateways):
        delta.released.add(key)


VERSIONS: Table[RouteVersion] = Table("version of HTTPRoute")
LAYER = Layer(table=VERSIONS, kinds=(api.HTTPRoute.kind,), compute=choose_version, charges=charges, publish=publish)
