"""The Service in front of a Gateway's pods. Its ports are those of the listeners: nothing is translated."""

from varnish_gateway.emit import names
from varnish_gateway.emit.manifests.metadata import Manifest, annotations, head, labels
from varnish_gateway.emit.manifests.shape import GatewayShape


def service(shape: GatewayShape) -> Manifest:
    """Return the Service; the Gateway has a listener to serve."""
    asked = shape.parameters.service
    manifest = head(shape, "v1", "Service", names.workload(shape.name))
    manifest["metadata"]["labels"] = labels(shape, asked.labels)
    manifest["metadata"]["annotations"] = annotations(shape, asked.annotations)
    spec: Manifest = {"type": asked.type, "selector": names.pod_selector(shape.name), "ports": _ports(shape)}
    if asked.load_balancer_class:
        spec["loadBalancerClass"] = asked.load_balancer_class
    if asked.load_balancer_source_ranges:
        spec["loadBalancerSourceRanges"] = list(asked.load_balancer_source_ranges)
    if asked.external_traffic_policy:
        spec["externalTrafficPolicy"] = asked.external_traffic_policy
    if asked.type == "LoadBalancer" and len(shape.addresses) == 1:  # the Gateway's status says so otherwise
        spec["loadBalancerIP"] = shape.addresses[0]
    return {**manifest, "spec": spec}


def _ports(shape: GatewayShape) -> list[Manifest]:
    sockets = sorted({(listener.port, listener.socket) for listener in shape.listeners})
    return [{"name": socket, "port": port, "targetPort": port, "protocol": "TCP"} for port, socket in sockets]
