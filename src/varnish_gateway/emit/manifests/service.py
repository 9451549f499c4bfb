"""The Service in front of a Gateway's pods. Its ports are those of the listeners: nothing is translated."""

from varnish_gateway.emit import names
from varnish_gateway.emit.manifests.metadata import Manifest, annotations, head, labels
from varnish_gateway.emit.manifests.shape import GatewayShape


def service(shape: GatewayShape) -> Manifest:
    """Return the Service; the Gateway has a listener to serve."""
    parameters = shape.parameters.service
    manifest = head(shape, "v1", "Service", shape.workload("Service"))
    manifest["metadata"]["labels"] = labels(shape, parameters.labels)
    manifest["metadata"]["annotations"] = annotations(shape, parameters.annotations)
    spec: Manifest = {"type": parameters.type, "selector": names.pod_selector(shape.name), "ports": _ports(shape)}
    if parameters.load_balancer_class:
        spec["loadBalancerClass"] = parameters.load_balancer_class
    if parameters.load_balancer_source_ranges:
        spec["loadBalancerSourceRanges"] = list(parameters.load_balancer_source_ranges)
    if parameters.external_traffic_policy:
        spec["externalTrafficPolicy"] = parameters.external_traffic_policy
    if parameters.type == "LoadBalancer" and len(shape.addresses) == 1:  # with more, the Gateway's status has a problem
        spec["loadBalancerIP"] = shape.addresses[0]
    return {**manifest, "spec": spec}


def _ports(shape: GatewayShape) -> list[Manifest]:
    sockets = sorted({(listener.port, listener.socket) for listener in shape.listeners})
    return [{"name": socket, "port": port, "targetPort": port, "protocol": "TCP"} for port, socket in sockets]
