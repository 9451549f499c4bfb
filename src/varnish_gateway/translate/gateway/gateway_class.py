"""Translate GatewayClasses.

In:   a GatewayClass, and the view for its parameters.
Out:  TranslatedClass: what its Gateways are configured with, and its status. None where it belongs
      to another controller. One that another operator serves has a status only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from varnish_gateway import api, ir
from varnish_gateway.api import Key
from varnish_gateway.api.varnish import GROUP
from varnish_gateway.translate.conditions import Problem, positive
from varnish_gateway.translate.gateway import parameters
from varnish_gateway.translate.gateway.parameters import Configured
from varnish_gateway.translate.incremental.dependency import Table
from varnish_gateway.translate.incremental.index import OwnerIndex
from varnish_gateway.translate.layers import Layer

if TYPE_CHECKING:
    from varnish_gateway.api.gateway_networking import ParametersRef
    from varnish_gateway.translate.incremental.view import View
    from varnish_gateway.translate.options import Options

FEATURES = tuple(
    {"name": name}
    for name in sorted(
        (
            "Gateway",
            "GatewayAddressEmpty",
            "GatewayFrontendClientCertificateValidation",
            "GatewayFrontendClientCertificateValidationInsecureFallback",
            "GatewayHTTPListenerIsolation",
            "GatewayHTTPSListenerDetectMisdirectedRequests",
            "GatewayPort8080",
            "HTTPRoute",
            "HTTPRoute303RedirectStatusCode",
            "HTTPRoute307RedirectStatusCode",
            "HTTPRoute308RedirectStatusCode",
            "HTTPRouteBackendProtocolWebSocket",
            "HTTPRouteBackendRequestHeaderModification",
            "HTTPRouteBackendTimeout",
            "HTTPRouteCORS",
            "HTTPRouteDestinationPortMatching",
            "HTTPRouteHostRewrite",
            "HTTPRouteMethodMatching",
            "HTTPRouteNamedRouteRule",
            "HTTPRouteParentRefPort",
            "HTTPRoutePathRedirect",
            "HTTPRoutePathRewrite",
            "HTTPRoutePortRedirect",
            "HTTPRouteQueryParamMatching",
            "HTTPRouteRequestTimeout",
            "HTTPRouteResponseHeaderModification",
            "HTTPRouteRetry",
            "HTTPRouteRetryBackendTimeout",
            "HTTPRouteRetryConnectionError",
            "HTTPRouteSchemeRedirect",
            "ListenerSet",
            "ReferenceGrant",
        )
    )
)
"""The features of the Gateway API that we support, as a status lists them."""
CLUSTER_FEATURES = tuple(
    sorted(
        (*FEATURES, {"name": "GatewayInfrastructure"}, {"name": "GatewayStaticAddresses"}),
        key=lambda feature: feature["name"],
    )
)
"""The same, and the features that need a cluster with load balancers."""


class TranslatedClass(Struct, frozen=True):
    configured: Configured
    status: ir.GatewayClassStatus | None  # None: assumed, there is no object
    is_served: bool = True


PLAIN = Configured(ir.Parameters())
ASSUMED = TranslatedClass(PLAIN, None)
_EVERY_CLASS = Key(api.GatewayClass.kind, "", "*")


def index() -> OwnerIndex:
    """Return an index of all GatewayClasses, for the question whether there is any."""
    return OwnerIndex(api.GatewayClass.kind, lambda _: _EVERY_CLASS)


def class_of(gateway: api.Gateway, options: Options, view: View) -> TranslatedClass | None:
    """Return the class of a Gateway, if this operator serves it."""
    name = gateway.spec.gateway_class_name
    found = view.get(CLASSES, Key(api.GatewayClass.kind, "", name))
    if found is not None:
        return found if found.is_served else None
    is_assumable = options.assume_class and name == options.class_name
    return ASSUMED if is_assumable and not view.members(api.GatewayClass, _EVERY_CLASS) else None


def translate_class(key: Key, options: Options, view: View) -> TranslatedClass | None:
    """Return a GatewayClass of ours."""
    found = view.find(api.GatewayClass, "", key.name)
    if found is None or found.spec.controller_name != options.controller:
        return None
    if options.only_class and key.name != options.class_name:
        return _unserved(found)
    ref = found.spec.parameters_ref
    configured = _parameters(ref, view, options.vcl_limit) if ref else PLAIN
    accepted = positive("Accepted", configured.problem, found.metadata.generation)
    features = CLUSTER_FEATURES if options.addresses == "load-balancer" else FEATURES
    return TranslatedClass(configured, ir.GatewayClassStatus((accepted,), features))


def _unserved(found: api.GatewayClass) -> TranslatedClass:
    """Return a class that waits for its own operator; every other operator writes the same status."""
    message = f"waiting for an operator with GATEWAY_CLASS_NAME={found.metadata.name}"
    pending = ir.Condition("Accepted", "Unknown", "Pending", message, found.metadata.generation)
    return TranslatedClass(PLAIN, ir.GatewayClassStatus((pending,)), is_served=False)


def _parameters(ref: ParametersRef, view: View, vcl_limit: int | None) -> Configured:
    if (ref.group, ref.kind) != (GROUP, "GatewayClassParameters"):
        return _invalid(f"{ref.group or 'core'}/{ref.kind} is not supported; use {GROUP}/GatewayClassParameters")
    if ref.namespace:
        return _invalid("GatewayClassParameters have no namespace; remove it")
    found = view.find(api.GatewayClassParameters, "", ref.name)
    if found is None:
        return _invalid(f"GatewayClassParameters {ref.name} does not exist")
    return parameters.validate_parameters(found, view, vcl_limit=vcl_limit)


def _invalid(message: str) -> Configured:
    message = f"parametersRef: {message}"
    # The parameters may have named user VCL, so the one in force has to stay.
    unavailable = ir.UserVclUnavailable("parametersRef", message)
    return Configured(None, unavailable, Problem("InvalidParameters", message))


CLASSES: Table[TranslatedClass] = Table("translated GatewayClass")
LAYER = Layer(
    table=CLASSES,
    kinds=(api.GatewayClass.kind,),
    compute=translate_class,
    status=lambda found: found.status,
)
