"""Documents of what tests put into the cluster. Pure."""

from typing import Any

from cluster import install, layout

Document = dict[str, Any]
GATEWAY_API = "gateway.networking.k8s.io/v1"


def namespace(name: str) -> Document:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def gateway(name: str, namespace: str, *, listeners: int = 1) -> Document:
    ports = [80, *range(8000, 8000 + listeners - 1)]
    return {
        "apiVersion": GATEWAY_API,
        "kind": "Gateway",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "gatewayClassName": install.CLASS,
            "listeners": [{"name": f"http-{port}", "port": port, "protocol": "HTTP"} for port in ports],
        },
    }


def route(name: str, namespace: str, *, gateway: str, host: str, service: str) -> Document:
    return {
        "apiVersion": GATEWAY_API,
        "kind": "HTTPRoute",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "parentRefs": [{"name": gateway}],
            "hostnames": [host],
            "rules": [{"backendRefs": [{"name": service, "port": 80}]}],
        },
    }


def echo(name: str, namespace: str, *, replicas: int = 1) -> list[Document]:
    """Return a Deployment of the conformance suite's echo server and its Service."""
    labels = {"app": name}
    fields = {"POD_NAME": "metadata.name", "NAMESPACE": "metadata.namespace"}
    environment = [{"name": key, "valueFrom": {"fieldRef": {"fieldPath": path}}} for key, path in fields.items()]
    container = {
        "name": "echo",
        "image": layout.ECHO_IMAGE,
        "env": [*environment, {"name": "SERVICE_NAME", "value": name}],
        "ports": [{"containerPort": 3000}],
        "readinessProbe": {"httpGet": {"path": "/health", "port": 3000}, "periodSeconds": 1},
        # A pod that goes has to serve until everybody knows: it says so by its endpoint first.
        "lifecycle": {"preStop": {"sleep": {"seconds": 5}}},
    }
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    metadata = {"name": name, "namespace": namespace}
    return [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata,
            "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"selector": labels, "ports": [{"port": 80, "targetPort": 3000}]},
        },
    ]
