"""Whether a ReferenceGrant lets an object use another one of another namespace.

In:   who refers (kind and namespace), what it refers to, and the view.
Out:  yes or no.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from varnish_gateway.api.gateway_networking import GROUP

if TYPE_CHECKING:
    from varnish_gateway.api import Key, ReferenceGrant
    from varnish_gateway.translate.incremental.view import View


class Owner(NamedTuple):
    """Who refers: a kind of the Gateway API, and the namespace of the object."""

    kind: str
    namespace: str


def granted(owner: Owner, target: Key, view: View) -> bool:
    """Return whether the owner may use an object of the core group in another namespace."""
    return any(_grants(grant, owner, target) for grant in view.grants(target.namespace))


def _grants(grant: ReferenceGrant, owner: Owner, target: Key) -> bool:
    return any(
        source.group == GROUP and (source.kind, source.namespace) == owner for source in grant.spec.from_
    ) and any(
        allowed.group == "" and allowed.kind == target.kind and allowed.name in (None, "", target.name)
        for allowed in grant.spec.to
    )
