"""Invalidations: which stored responses clients should not get any more.

In:   JSON from a client, as ghost takes it on the reload socket too.
Out:  an Invalidation, or BadDocument that names the field and what to write there; the counts that ghost answers with.
Pure. ghost alone decides what is wrong with a host, a path, a pattern or a tag.
"""

import re
from collections.abc import Iterator
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from varnish_gateway import errors
from varnish_gateway.ir.wire import Wire

LARGEST = 4 << 20
"""Bytes of an invalidation. 10,000 tags of 256 bytes fit."""

_ROUTE = re.compile(r"[^/\s]+/[^/\s]+")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


class UriTarget(Wire, frozen=True):
    """One URI as clients request it: all variants, under all keys. ``target`` is its path with query."""

    host: str
    target: str


class PrefixTarget(Wire, frozen=True):
    """All URIs of a host whose path with query begins so."""

    host: str
    prefix: str


class MatchingTarget(Wire, frozen=True):
    """All URIs of a host in whose path with query a regular expression matches."""

    host: str
    pattern: str


class InvalidationTarget(Wire, frozen=True):
    """Exactly one of the fields is set. An object has one of ``tags`` at least; %XX is a byte in them."""

    uri: UriTarget | UnsetType = UNSET
    prefix: PrefixTarget | UnsetType = UNSET
    matching: MatchingTarget | UnsetType = UNSET
    host: str | UnsetType = UNSET
    tags: tuple[str, ...] | UnsetType = UNSET
    route: str | UnsetType = UNSET  # "namespace/name"
    everything: bool | UnsetType = UNSET


class Invalidation(Wire, frozen=True, omit_defaults=False):
    """A hard one removes objects, a soft one makes them stale.

    It is restricted to objects of ``routes`` and of all routes of ``namespaces``; without both to none.
    """

    targets: tuple[InvalidationTarget, ...]
    mode: Literal["hard", "soft"] = "hard"
    routes: tuple[str, ...] | UnsetType = UNSET
    namespaces: tuple[str, ...] | UnsetType = UNSET

    @property
    def is_restricted(self) -> bool:
        return not (self.routes is UNSET and self.namespaces is UNSET)


class InvalidationResult(Wire, frozen=True):
    """How many objects each target hit, in the order of the targets."""

    objects: tuple[int, ...]


_decode = msgspec.json.Decoder(Invalidation).decode
_AT = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<where>.*)`)?", re.DOTALL)


def read_invalidation(content: bytes) -> Invalidation:
    """Decode and check an invalidation; raise BadDocument."""
    try:
        invalidation = _decode(content)
    except (ValueError, RecursionError) as error:
        raise errors.BadDocument(field_first(str(error))) from None
    for fault in _faults(invalidation):
        raise errors.BadDocument(fault)
    return invalidation


def field_first(message: str) -> str:
    """Return msgspec's message with its field in front: ``targets[0].host: expected …``."""
    match = _AT.fullmatch(message)
    if match is None or not match["where"]:
        return message
    return f"{match['where']}: {match['what'][:1].lower()}{match['what'][1:]}"


def is_route(name: str) -> bool:
    """Whether it has the form namespace/name."""
    return _ROUTE.fullmatch(name) is not None


def is_namespace(name: str) -> bool:
    """Whether a namespace may have this name."""
    return _NAMESPACE.fullmatch(name) is not None


def _faults(invalidation: Invalidation) -> Iterator[str]:
    if not invalidation.targets:
        yield "targets: write one at least"
    if invalidation.routes is not UNSET:
        for number, route in enumerate(invalidation.routes):
            yield from _route_faults(f"routes[{number}]", route)
    if invalidation.namespaces is not UNSET:
        for number, namespace in enumerate(invalidation.namespaces):
            if not is_namespace(namespace):
                yield f"namespaces[{number}]: write the name of a namespace"
    for number, target in enumerate(invalidation.targets):
        for fault in _target_faults(target):
            yield f"targets[{number}]{fault}"


def _target_faults(target: InvalidationTarget) -> Iterator[str]:
    fields = InvalidationTarget.__struct_fields__
    named = [field for field in fields if getattr(target, field) is not UNSET]
    if len(named) != 1:
        yield f": write one of {', '.join(fields)}, and " + (f"not {' with '.join(named)}" if named else "nothing else")
    if isinstance(target.route, str):
        yield from _route_faults(".route", target.route)


def _route_faults(field: str, route: str) -> Iterator[str]:
    if not is_route(route):
        yield f"{field}: write namespace/name"
