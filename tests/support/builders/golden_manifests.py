"""From objects in a file to the shape of the Gateway in it, as in a cluster."""

from pathlib import Path

import yaml

from varnish_gateway import api, ir
from varnish_gateway.emit.manifests import GatewayShape, Installation
from varnish_gateway.translate import Translator

INSTALLATION = Installation(image="ghcr.io/varnish/varnish-gateway:1.0.0", image_pull_secrets=("registry",))
CLUSTER = {"class_name": "varnish", "only_class": True, "addresses": "load-balancer"}


def documents(case: Path) -> list[dict]:
    return list(yaml.safe_load_all(case.read_text()))


def shape_of(objects: list[api.Object]) -> GatewayShape:
    """Return the shape of the one Gateway among the objects."""
    delta = Translator(**CLUSTER).update({api.key_of(obj): obj for obj in objects})
    (gateway,) = (obj for obj in objects if isinstance(obj, api.Gateway))
    changes = delta.gateways[api.key_of(gateway)]
    assert isinstance(changes, ir.GatewayDelta)
    assert changes.parameters is not None, delta.statuses
    infrastructure = gateway.spec.infrastructure
    return GatewayShape(
        namespace=gateway.metadata.namespace,
        name=gateway.metadata.name,
        uid=gateway.metadata.uid,
        class_name=gateway.spec.gateway_class_name,
        listeners=changes.listeners or (),
        parameters=changes.parameters,
        labels=infrastructure.labels if infrastructure else {},
        annotations=infrastructure.annotations if infrastructure else {},
        addresses=tuple(address.value for address in gateway.spec.addresses if address.value),
    )
