"""The echo server of the conformance suite, as tests deploy it. Pure."""

from cluster import layout
from support.kube.documents import Document


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
        # A terminating pod serves until all proxies know: its endpoint reports that first.
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
