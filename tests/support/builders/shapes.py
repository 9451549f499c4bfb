"""A Gateway's shape for tests, in few words."""

from typing import Any

from support.builders.objects import VARNISH_API, obj, view_of
from varnish_gateway.emit.manifests import GatewayShape, Installation
from varnish_gateway.ir import Parameters, wire
from varnish_gateway.translate.gateway.parameters import validate_parameters

INSTALLATION = Installation(image="example.com/gateway:1")
LISTENER = wire.Listener(name="http", socket="http-80", port=80)


def parameters(**spec: Any) -> Parameters:
    """Return what GatewayClassParameters with this spec come to."""
    configured = validate_parameters(
        obj("GatewayClassParameters", "p", group=VARNISH_API, spec=spec),
        view_of(obj("ConfigMap", "vcl", "shop", group="", data={"user.vcl": "text"})),
    )
    assert configured.parameters is not None, configured.problem
    return configured.parameters


def shape(**fields: Any) -> GatewayShape:
    plain = {"namespace": "shop", "name": "web", "uid": "1", "class_name": "varnish", "listeners": (LISTENER,)}
    return GatewayShape(**plain | fields)
