"""Whether a ReferenceGrant lets an object use another one of another namespace.

In:   the referrer (its kind and namespace), the target of its reference, and the view.
Out:  yes or no.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from varnish_gateway import api
from varnish_gateway.api import Key
from varnish_gateway.api.gateway_networking import GROUP
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
