"""Everything that the Gateway controller applies for one Gateway, except the ConfigMap."""

from collections.abc import Iterator

from varnish_gateway.api import Key
from varnish_gateway.emit import names
from varnish_gateway.emit.manifests.access import access
from varnish_gateway.emit.manifests.deployment import deployment
from varnish_gateway.emit.manifests.metadata import Manifest, head, stamped
from varnish_gateway.emit.manifests.scaling import autoscaler, disruption_budget
from varnish_gateway.emit.manifests.service import service
from varnish_gateway.emit.manifests.shape import GatewayShape, Installation


def objects(shape: GatewayShape, installation: Installation) -> dict[Key, Manifest]:
    """Return the manifests by key, in the order in which they are applied: what a pod needs comes first.

    A Gateway without a listener to serve has no Service: there is no Service without a port.
    """
    manifests = map(stamped, _all(shape, installation))
    return {_key(manifest): manifest for manifest in manifests}


def _all(shape: GatewayShape, installation: Installation) -> Iterator[Manifest]:
    yield from access(shape, installation)
    yield {**head(shape, "v1", "Secret", names.secret(shape.name)), "type": "Opaque"}
    if shape.listeners:
        yield service(shape)
    if shape.parameters.pod_disruption_budget:
        yield disruption_budget(shape, shape.parameters.pod_disruption_budget)
    yield deployment(shape, installation)
    if shape.parameters.autoscaling:
        yield autoscaler(shape, shape.parameters.autoscaling)


def _key(manifest: Manifest) -> Key:
    return Key(manifest["kind"], manifest["metadata"]["namespace"], manifest["metadata"]["name"])
