"""A namespace in the running cluster: what a test does and sees there."""

import socket
import time
from collections.abc import Callable
from typing import TypeVar

from cluster.api import Api, Document, Refused
from support.kube import echo as objects

PLACES = {
    "Deployment": ("/apis/apps/v1", "deployments"),
    "Gateway": ("/apis/gateway.networking.k8s.io/v1", "gateways"),
    "HTTPRoute": ("/apis/gateway.networking.k8s.io/v1", "httproutes"),
    "Pod": ("/api/v1", "pods"),
    "Service": ("/api/v1", "services"),
}
PATIENCE = 120.0
GAP = 0.05
T = TypeVar("T")


class ClusterHarness:
    def __init__(self, api: Api, namespace: str) -> None:
        self.api = api
        self.namespace = namespace

    def path(self, kind: str, name: str = "") -> str:
        group, plural = PLACES[kind]
        return f"{group}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    def put(self, *documents: Document) -> None:
        """Make objects, or bring them to what is written."""
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

    # -- what there has to be ----------------------------------------------------------------

    def echo(self, name: str, *, replicas: int = 1) -> None:
        """Have an echo server and wait until it is ready."""
        self.put(*objects.echo(name, self.namespace, replicas=replicas))
        self.rolled_out(name)

    def rolled_out(self, name: str) -> None:
        until(lambda: is_rolled_out(self.get("Deployment", name)), f"Deployment {name} is rolled out")

    def gateway(self, name: str = "gateway") -> str:
        """Have a Gateway that is programmed, and return its address."""
        self.put(objects.gateway(name, self.namespace))
        found = until(lambda: address(self.get("Gateway", name)), f"Gateway {name} is programmed")
        until(lambda: is_reachable(found), f"kube-proxy knows {found}")
        return found


def until(condition: Callable[[], T], what: str, seconds: float = PATIENCE) -> T:
    """Ask again and again until the answer is true, and return it."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(GAP)
    return found


def is_rolled_out(deployment: Document | None) -> bool:
    """Whether every pod is of the newest template, and ready."""
    if deployment is None:
        return False
    status, wanted = deployment.get("status", {}), deployment["spec"]["replicas"]
    newest = status.get("observedGeneration") == deployment["metadata"]["generation"]
    counts = [status.get(count, 0) for count in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")]
    return newest and counts == [wanted] * 4


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
