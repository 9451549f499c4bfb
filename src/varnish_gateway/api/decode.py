"""Turn a plain document into its type.

In:   a mapping, as JSON or YAML gives it; schema and defaults were applied before.
Out:  the typed object.
Raises UnknownKind for a kind that we don't read, BadDocument where a field has a wrong type.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from varnish_gateway import errors
from varnish_gateway.api import core, discovery, gateway_networking, varnish
from varnish_gateway.api.meta import Object

KINDS: Mapping[tuple[str, str], type[Object]] = {
    **{
        (f"{gateway_networking.GROUP}/{version}", kind.kind): kind
        for version in ("v1", "v1beta1")
        for kind in (
            gateway_networking.GatewayClass,
            gateway_networking.Gateway,
            gateway_networking.HTTPRoute,
            gateway_networking.ReferenceGrant,
        )
    },
    (f"{gateway_networking.GROUP}/v1", "ListenerSet"): gateway_networking.ListenerSet,
    (f"{varnish.GROUP}/v1alpha1", "GatewayClassParameters"): varnish.GatewayClassParameters,
    **{("v1", kind.kind): kind for kind in (core.Service, core.Namespace, core.Secret, core.ConfigMap)},
    ("discovery.k8s.io/v1", "EndpointSlice"): discovery.EndpointSlice,
}
"""(apiVersion, kind) of everything that we read."""


def decode(document: Mapping[str, Any]) -> Object:
    """Return the typed form of document."""
    version, kind = document.get("apiVersion"), document.get("kind")
    wanted = KINDS.get((str(version), str(kind)))
    if wanted is None:
        raise errors.UnknownKind(f"{kind} of {version} is not a kind that Varnish Gateway reads")
    try:
        return msgspec.convert(document, wanted)
    except msgspec.ValidationError as error:
        name = document.get("metadata", {}).get("name", "?") if isinstance(document.get("metadata"), Mapping) else "?"
        raise errors.BadDocument(f"{kind} {name}: {error}") from error
