"""Decide whether an object may refer to another one: in another namespace it needs a ReferenceGrant.

In:   the referrer (its kind and namespace), the target of its reference, and the view.
Out:  None, or a Problem that reveals nothing about the other namespace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from varnish_gateway import api
from varnish_gateway.api import Key
from varnish_gateway.api.gateway_networking import GROUP
from varnish_gateway.translate.conditions import Problem
from varnish_gateway.translate.incremental.index import OwnerIndex

if TYPE_CHECKING:
    from varnish_gateway.translate.incremental.view import View


class Referrer(NamedTuple):
    """A kind of the Gateway API, and the namespace of the object that holds the reference."""

    kind: str
    namespace: str


def index() -> OwnerIndex:
    """Return an index of ReferenceGrants by namespace."""
    return OwnerIndex(api.ReferenceGrant.kind, lambda grant: _namespace(grant.metadata.namespace))


def not_permitted(referrer: Referrer, target: Key, view: View) -> Problem | None:
    """Return why the referrer may not use an object of the core group, None if it may."""
    if target.namespace == referrer.namespace or granted(referrer, target, view):
        return None
    allowed = f"{referrer.kind}s of {referrer.namespace} use {target.kind} {target.name}"
    return Problem("RefNotPermitted", f"no ReferenceGrant in namespace {target.namespace} lets {allowed}")


def granted(referrer: Referrer, target: Key, view: View) -> bool:
    """Return whether the referrer may use an object of the core group in another namespace."""
    grants = view.members(api.ReferenceGrant, _namespace(target.namespace))
    return any(_grants(grant, referrer, target) for grant in grants.values())


def _namespace(name: str) -> Key:
    return Key(api.Namespace.kind, "", name)


def _grants(grant: api.ReferenceGrant, referrer: Referrer, target: Key) -> bool:
    return any(
        source.group == GROUP and (source.kind, source.namespace) == referrer for source in grant.spec.from_
    ) and any(
        allowed.group == "" and allowed.kind == target.kind and allowed.name in (None, "", target.name)
        for allowed in grant.spec.to
    )
