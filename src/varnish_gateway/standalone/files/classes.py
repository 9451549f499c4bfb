"""Gateways that name a class which no file defines: most likely one of the two names is misspelt.

In:   the Gateways and GatewayClasses in force.
Out:  what is wrong, for each such Gateway. A class of another controller is known: its Gateways are not ours.
Pure.
"""

from collections.abc import Mapping

from varnish_gateway.api import Gateway, GatewayClass, Key, Object
from varnish_gateway.standalone.schema import did_you_mean

FIELD = "spec.gatewayClassName"
KINDS = frozenset({Gateway.kind, GatewayClass.kind})
ASSUMED = "varnish"


def unknown_classes(objects: Mapping[Key, Object]) -> dict[Key, str]:
    """Return the Gateways whose class does not exist, with the message for the user."""
    known = {key.name for key in objects if key.kind == GatewayClass.kind} or {ASSUMED}
    return {
        key: f'no file defines the GatewayClass "{name}"{did_you_mean(name, known)}'
        for key, obj in objects.items()
        if isinstance(obj, Gateway) and (name := obj.spec.gateway_class_name) not in known
    }
