"""Whether a ReferenceGrant lets a route use a Service of another namespace.

In:   the route's namespace, the Service, and the view.
Out:  yes or no.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from varnish_gateway.api.gateway_networking import GROUP

if TYPE_CHECKING:
    from varnish_gateway.api import ReferenceGrant
    from varnish_gateway.translate.view import View


def granted(*, route_namespace: str, service_namespace: str, service: str, view: View) -> bool:
    """Return whether an HTTPRoute of one namespace may use a Service of another."""
    return any(_grants(grant, route_namespace, service) for grant in view.grants(service_namespace))


def _grants(grant: ReferenceGrant, route_namespace: str, service: str) -> bool:
    return any(
        source.group == GROUP and source.kind == "HTTPRoute" and source.namespace == route_namespace
        for source in grant.spec.from_
    ) and any(
        target.group == "" and target.kind == "Service" and target.name in (None, "", service)
        for target in grant.spec.to
    )
