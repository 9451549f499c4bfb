"""Which listeners a route attaches to. Decided here, once; status, counts and routing read the answer.

In:   a route, one of its parentRefs, and the Gateway or ListenerSet that it names.
Out:  the listeners with the hostnames that meet there, or why there are none.
Whether a listener is served does not matter here: a route is attached by what it names
and what the listener allows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from varnish_gateway.api.gateway_networking import GROUP
from varnish_gateway.translate import hostnames
from varnish_gateway.translate.conditions import Problem, listed
from varnish_gateway.translate.gateway import namespaces

if TYPE_CHECKING:
    from varnish_gateway.api import HTTPRoute, Key
    from varnish_gateway.api.gateway_networking import ParentReference
    from varnish_gateway.translate.gateway.route_parents import RouteParent
    from varnish_gateway.translate.incremental.view import View
    from varnish_gateway.translate.listener import ValidatedListener


class Attached(Struct, frozen=True):
    """A listener of the route, its Gateway or ListenerSet, and those hostnames of the route that meet its own."""

    owner: Key
    listener: ValidatedListener
    hostnames: tuple[str, ...]


def attach(route: HTTPRoute, ref: ParentReference, parent: RouteParent, view: View) -> tuple[Attached, ...] | Problem:
    """Return where a parentRef attaches a route, or why it doesn't.

    A Gateway stands for its own listeners only, not for those of its ListenerSets.
    """
    if not parent.listeners:  # a ListenerSet that its Gateway does not allow
        return Problem("NoMatchingParent", f"{parent.key} is not attached to {parent.gateway}, see its conditions")
    named = [
        listener
        for listener in parent.listeners
        if ref.section_name in (None, "", listener.name) and ref.port in (None, listener.port)
    ]
    if not named:
        return Problem("NoMatchingParent", f"{parent.key} has no listener {_asked(ref)}")
    allowing = [listener for listener in named if _allows(listener, parent, route, view)]
    if not allowing:
        return Problem("NotAllowedByListeners", _refusal(named, route))
    attached = tuple(
        Attached(parent.key, listener, common)
        for listener in allowing
        if (common := hostnames.meeting(listener.hostname, route.spec.hostnames))
    )
    if not attached:
        own = listed([listener.hostname for listener in allowing], ", ")
        return Problem(
            "NoMatchingListenerHostname",
            f"none of the route's hostnames is within those of listeners: {own}; change hostnames",
        )
    return attached


def _allows(listener: ValidatedListener, parent: RouteParent, route: HTTPRoute, view: View) -> bool:
    return any(kind.group == GROUP and kind.kind == route.kind for kind in listener.kinds) and namespaces.allowed(
        listener.namespaces, owner=parent.key.namespace, guest=route.metadata.namespace, view=view
    )


def _asked(ref: ParentReference) -> str:
    asked = [f"named {ref.section_name}"] if ref.section_name else []
    if ref.port is not None:
        asked.append(f"on port {ref.port}")
    return " ".join(asked) or "at all"


def _refusal(named: list[ValidatedListener], route: HTTPRoute) -> str:
    forbidden = f"allowedRoutes permits no {route.kind} from namespace {route.metadata.namespace}"
    whys = (listener.rejected.message if listener.rejected and not listener.kinds else forbidden for listener in named)
    return listed([f"listener {listener.name}: {why}" for listener, why in zip(named, whys, strict=True)])
