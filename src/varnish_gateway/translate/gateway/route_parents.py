"""Gateways and ListenerSets as the parents of routes.

In:   a Gateway or ListenerSet, resolved.
Out:  RouteParent: its listeners and nothing else, so that a rotated certificate or a new
      generation recomputes no route.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from varnish_gateway import api
from varnish_gateway.translate.gateway import gateways, listener_sets
from varnish_gateway.translate.incremental.dependency import Table
from varnish_gateway.translate.layers import Layer

if TYPE_CHECKING:
    from varnish_gateway.api import Key
    from varnish_gateway.translate.incremental.view import View
    from varnish_gateway.translate.listener import ValidatedListener
    from varnish_gateway.translate.options import Options


class RouteParent(Struct, frozen=True):
    """``gateway`` is the Gateway itself, or that of the ListenerSet."""

    key: Key
    gateway: Key
    listeners: tuple[ValidatedListener, ...]


def compute(key: Key, _: Options, view: View) -> RouteParent | None:
    """Return a Gateway of ours, or a ListenerSet of one, as routes see it."""
    if key.kind == api.Gateway.kind:
        gateway = view.get(gateways.RESOLVED, key)
        return RouteParent(key, key, gateway.listeners) if gateway else None
    listener_set = view.get(listener_sets.RESOLVED, key)
    return RouteParent(key, listener_set.gateway, listener_set.listeners) if listener_set else None


PARENTS: Table[RouteParent] = Table("parent of routes")
LAYER = Layer(table=PARENTS, kinds=(api.Gateway.kind, api.ListenerSet.kind), compute=compute)
