"""Everything that the Gateway controller applies for one Gateway, except ConfigMaps and the Secret."""

from collections.abc import Iterable, Iterator

from varnish_gateway.api import Key
from varnish_gateway.emit.manifests.access import access, endpoints_binding
from varnish_gateway.emit.manifests.deployment import deployment
from varnish_gateway.emit.manifests.metadata import Manifest, stamped
from varnish_gateway.emit.manifests.scaling import autoscaler, disruption_budget
from varnish_gateway.emit.manifests.service import service
from varnish_gateway.emit.manifests.shape import GatewayShape, Installation


def objects(shape: GatewayShape, installation: Installation) -> dict[Key, Manifest]:
    """Return the manifests by key, in the order in which they are applied: what a pod needs comes first.

    A Gateway without a listener to serve has no Service: there is no Service without a port.
    """
    return _by_key(_all(shape, installation))


def bindings(shape: GatewayShape, namespaces: Iterable[str], installation: Installation) -> dict[Key, Manifest]:
    """Return what lets pods read EndpointSlices in these namespaces; apart, because they come and go with routes."""
    return _by_key(endpoints_binding(shape, namespace, installation) for namespace in namespaces)


def _all(shape: GatewayShape, installation: Installation) -> Iterator[Manifest]:
    yield from access(shape)
    if shape.listeners:
        yield service(shape)
    if shape.parameters.pod_disruption_budget:
        yield disruption_budget(shape, shape.parameters.pod_disruption_budget)
    yield deployment(shape, installation)
    if shape.parameters.autoscaling:
        yield autoscaler(shape, shape.parameters.autoscaling)


def _by_key(made: Iterable[Manifest]) -> dict[Key, Manifest]:
    return {_key(manifest): stamped(manifest) for manifest in made}


def _key(manifest: Manifest) -> Key:
    return Key(manifest["kind"], manifest["metadata"]["namespace"], manifest["metadata"]["name"])
