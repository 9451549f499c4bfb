"""A namespace of the running cluster: what a test creates, reads and waits for there."""

import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Any, Self, TypeVar

from cluster import install
from cluster.api import Api, Document
from cluster.errors import Refused
from support.kube.documents import gateway, namespace, parameters
from support.kube.echo import echo
from support.waiting import until

PARAMETERS = "/apis/gateway.varnish-software.com/v1alpha1/gatewayclassparameters"
CLASS = f"/apis/gateway.networking.k8s.io/v1/gatewayclasses/{install.CLASS}"
COLLECTIONS = {
    "ConfigMap": ("/api/v1", "configmaps"),
    "Deployment": ("/apis/apps/v1", "deployments"),
    "Gateway": ("/apis/gateway.networking.k8s.io/v1", "gateways"),
    "HTTPRoute": ("/apis/gateway.networking.k8s.io/v1", "httproutes"),
    "Pod": ("/api/v1", "pods"),
    "Secret": ("/api/v1", "secrets"),
    "Service": ("/api/v1", "services"),
    "VarnishCachePolicy": ("/apis/gateway.varnish-software.com/v1alpha1", "varnishcachepolicies"),
}
TIMEOUT = 120.0
"""Pods that start and stop on a busy machine take their time."""
T = TypeVar("T")


class ClusterHarness:
    def __init__(self, api: Api, namespace: str) -> None:
        self.api = api
        self.namespace = namespace

    @classmethod
    @contextlib.contextmanager
    def in_namespace(cls, api: Api, name: str) -> Iterator[Self]:
        """Create a namespace, and delete it at the end."""
        api.create("/api/v1/namespaces", namespace(name))
        try:
            yield cls(api, name)
        finally:
            api.delete(f"/api/v1/namespaces/{name}")

    def path(self, kind: str, name: str = "") -> str:
        group, plural = COLLECTIONS[kind]
        return f"{group}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    def put(self, *documents: Document) -> None:
        """Apply objects."""
        for document in documents:
            self.api.apply(self.path(document["kind"], document["metadata"]["name"]), document)

    def create(self, document: Document) -> None:
        self.api.create(self.path(document["kind"]), document)

    def get(self, kind: str, name: str) -> Document | None:
        try:
            return self.api.get(self.path(kind, name))
        except Refused as refused:
            if refused.status == 404:
                return None
            raise

    def pods(self, **labels: str) -> list[Document]:
        chosen = ",".join(f"{label}%3D{value}" for label, value in labels.items())
        return list(self.api.get(f"{self.path('Pod')}?labelSelector={chosen}")["items"])

    # -- waiting ------------------------------------------------------------------------------

    def wait_for(self, look: Callable[[], T], what: str) -> T:
        return until(look, what, TIMEOUT)

    def echo(self, name: str, *, replicas: int = 1) -> None:
        """Deploy an echo server and wait until it is ready."""
        self.put(*echo(name, self.namespace, replicas=replicas))
        self.rolled_out(name)

    def rolled_out(self, name: str) -> None:
        self.wait_for(lambda: is_rolled_out(self.get("Deployment", name)), f"Deployment {name} is rolled out")

    def gateway(self, name: str = "gateway", **spec: Any) -> str:
        """Create a Gateway, wait until it is programmed, and return its address."""
        self.put(gateway(self.namespace, name, install.CLASS, **spec))
        found = self.wait_for(lambda: address(self.get("Gateway", name)), f"Gateway {name} is programmed")
        self.wait_for(lambda: is_reachable(found), f"kube-proxy knows {found}")
        return found


@contextlib.contextmanager
def class_parameters(api: Api, name: str, **spec: Any) -> Iterator[None]:
    """Give the class of all Gateways these parameters, until the end."""
    document = parameters(name, **spec)
    api.apply(f"{PARAMETERS}/{name}", document)
    group = document["apiVersion"].partition("/")[0]
    api.merge(CLASS, {"spec": {"parametersRef": {"group": group, "kind": document["kind"], "name": name}}})
    try:
        yield
    finally:
        api.merge(CLASS, {"spec": {"parametersRef": None}})
        api.delete(f"{PARAMETERS}/{name}")


def is_rolled_out(deployment: Document | None) -> bool:
    """Whether every pod is of the newest template, and ready."""
    if deployment is None:
        return False
    status, desired = deployment.get("status", {}), deployment["spec"]["replicas"]
    newest = status.get("observedGeneration") == deployment["metadata"]["generation"]
    counts = [status.get(count, 0) for count in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")]
    return newest and counts == [desired] * 4


def is_reachable(address: str, port: int = 80) -> bool:
    try:
        socket.create_connection((address, port), timeout=2).close()
    except OSError:
        return False
    return True


def address(gateway: Document | None) -> str | None:
    """Return the address of a Gateway that is programmed in its newest generation."""
    if gateway is None:
        return None
    status = gateway.get("status", {})
    for condition in status.get("conditions", []):
        newest = condition.get("observedGeneration") == gateway["metadata"]["generation"]
        if condition["type"] == "Programmed" and condition["status"] == "True" and newest:
            return next((one["value"] for one in status.get("addresses", [])), None)
    return None
