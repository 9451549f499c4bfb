"""What a VarnishCacheInvalidation asks of each pod of its Gateway.

In:   the object, and the routes that the Gateway serves.
Out:  PodRequest: the content for ``POST /invalidate``; or RequestFault, which says what to change.
Pure.

An invalidation from the namespace of the Gateway may name anything. One from another namespace means what the routes
of that namespace have stored and nothing else, whatever host, path or tag it names. Pods get the namespace, not the
routes that serve at the moment: what a removed route has stored would otherwise stay.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec
from msgspec import UNSET, Struct

from varnish_gateway.api import Key, VarnishCacheInvalidation
from varnish_gateway.ir.invalidation import (
    LARGEST,
    Invalidation,
    InvalidationTarget,
    MatchingTarget,
    PrefixTarget,
    UriTarget,
)
from varnish_gateway.translate.conditions import listed


class PodRequest(Struct, frozen=True):
    """``targets`` are what the spec names, in the order of the counts. ``restriction`` says what is left out."""

    content: bytes
    targets: tuple[str, ...]
    restriction: str = ""


class RequestFault(Struct, frozen=True):
    reason: str
    message: str


Target = tuple[str, InvalidationTarget]


def request_of(obj: VarnishCacheInvalidation, routes: Iterable[Key]) -> PodRequest | RequestFault:
    """Return what to send to every pod."""
    namespace, gateway = obj.metadata.namespace, obj.gateway
    targets, foreign = list(_targets(obj)), []
    allowed: tuple[str, ...] | msgspec.UnsetType = UNSET
    if namespace != gateway.namespace:
        allowed = (namespace,)
        foreign = [one for one in _routes(obj) if not one.startswith(f"{namespace}/")]
        targets = [one for one in targets if one[1].route not in foreign]
        names_own = len(foreign) < len(_routes(obj))
        if not names_own and not any(key.namespace == namespace for key in routes):
            message = f"no HTTPRoute of namespace {namespace} is attached to {gateway}; attach one"
            return RequestFault("NoRoutes", message)
    if not targets:
        return RequestFault("NotPermitted", f"from namespace {namespace} these can't be named: {_listed(foreign)}")
    mode: Literal["soft", "hard"] = "soft" if obj.spec.mode == "Soft" else "hard"
    asked = Invalidation(targets=tuple(target for _, target in targets), mode=mode, namespaces=allowed)
    content = msgspec.json.encode(asked)
    if len(content) > LARGEST:
        return RequestFault("TooLarge", f"it has more than {LARGEST} bytes; name fewer targets")
    restriction = "" if allowed is UNSET else _restriction(namespace, foreign)
    return PodRequest(content, tuple(label for label, _ in targets), restriction)


def _targets(obj: VarnishCacheInvalidation) -> Iterator[Target]:
    spec = obj.spec
    host = spec.hostname
    for path in spec.paths:
        if spec.type == "Ban":
            yield path, InvalidationTarget(matching=MatchingTarget(host, path))
        else:
            yield path, InvalidationTarget(uri=UriTarget(host, path))
    for prefix in spec.prefixes:
        yield f"prefix {prefix}", InvalidationTarget(prefix=PrefixTarget(host, prefix))
    if host and not spec.paths and not spec.prefixes:
        yield f"host {host}", InvalidationTarget(host=host)
    if spec.tags:
        yield "tags", InvalidationTarget(tags=spec.tags)
    for route in _routes(obj):
        yield f"route {route}", InvalidationTarget(route=route)
    if spec.everything:
        yield "everything", InvalidationTarget(everything=True)


def _routes(obj: VarnishCacheInvalidation) -> list[str]:
    """Return the routes that are named, with their namespaces."""
    return [route if "/" in route else f"{obj.metadata.namespace}/{route}" for route in obj.spec.routes]


def _restriction(namespace: str, foreign: list[str]) -> str:
    restriction = f"from namespace {namespace}, only what routes of that namespace have stored is meant"
    return f"{restriction}; left out: {_listed(foreign)}" if foreign else restriction


def _listed(routes: Sequence[str]) -> str:
    return listed(routes, ", ")
