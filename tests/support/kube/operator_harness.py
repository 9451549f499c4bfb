"""A namespace in which an operator works, and what a test does and sees there.

In:   a running operator of a class of its own.
Out:  objects by kind and name, conditions, Events, and ways to wait for them.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from cluster.apiserver.server import Cluster
from cluster.errors import Refused
from support.kube.documents import Document, gateway, gateway_class, parameters, put
from support.kube.operator_process import OperatorProcess
from support.waiting import until
from varnish_gateway.emit.names import INFRA_HASH, WORKLOAD_KINDS, workload
from varnish_gateway.ir import wire
from varnish_gateway.kinds import Use, used_for
from varnish_gateway.kube.resources import RESOURCES

GATEWAY_OBJECTS = {
    ("ConfigMap", "gw-vcl"),
    ("Deployment", "gw-vgw"),
    ("Role", "gw-vgw"),
    ("RoleBinding", "gw-vgw"),
    ("Secret", "gw-vgw-tls"),
    ("Service", "gw-vgw"),
    ("ServiceAccount", "gw-vgw"),
}
"""What the operator creates for a Gateway named gw: kinds and names."""


class OperatorHarness:
    def __init__(self, cluster: Cluster, operator: OperatorProcess, namespace: str) -> None:
        self.cluster = cluster
        self.operator = operator
        self.namespace = namespace
        self.class_name = operator.class_name

    # -- what a user does -------------------------------------------------------------------

    def put(self, *documents: Document) -> None:
        put(self.cluster, *documents)

    def delete(self, kind: str, name: str, namespace: str | None = None, policy: str = "Background") -> None:
        self.cluster.request("DELETE", f"{self.path(kind, name, namespace)}?propagationPolicy={policy}")

    def change(self, kind: str, name: str, document: Document, *, subresource: str = "", who: str = "somebody") -> None:
        """Change an object as ``kubectl edit`` does: the changed fields belong to ``who`` from then on."""
        path = f"{self.path(kind, name)}{f'/{subresource}' if subresource else ''}?fieldManager={who}"
        self.cluster.merge(path, document)

    def configure(self, **spec: Any) -> None:
        """Give the class these parameters, in place of those that it has."""
        name = self.class_name
        self.put(parameters(name, **spec), gateway_class(name, parameters=name))

    def gateway(self, name: str = "gw", **more: Any) -> Document:
        """Have a Gateway, as it is to be or changed; return when the operator has dealt with it."""
        self.put(gateway(self.namespace, name, self.class_name, **more))
        self.until_observed(name)
        return self.get("Gateway", name)

    # -- what is there ----------------------------------------------------------------------

    def path(self, kind: str, name: str = "", namespace: str | None = None) -> str:
        resource = RESOURCES[kind]
        return resource.path(namespace or self.namespace if resource.namespaced else "", name)

    def get(self, kind: str, name: str = "", namespace: str | None = None) -> Document:
        """Return an object; without a name that of the Gateway gw, or the Gateway itself."""
        name = name or (workload("gw") if kind in WORKLOAD_KINDS else "gw")
        return self.cluster.request("GET", self.path(kind, name, namespace))

    def find(self, kind: str, name: str = "", namespace: str | None = None) -> Document | None:
        try:
            return self.get(kind, name, namespace)
        except Refused as refused:
            if refused.status == 404:
                return None
            raise

    def all(self, kind: str, namespace: str | None = None) -> list[Document]:
        return list(self.cluster.request("GET", self.path(kind, namespace=namespace))["items"])

    def names(self, kind: str, namespace: str | None = None) -> set[str]:
        """Return the names of the objects of a kind that are the operator's."""
        selector = "?labelSelector=app.kubernetes.io/managed-by=varnish-gateway"
        found = self.cluster.request("GET", self.path(kind, namespace=namespace) + selector)["items"]
        return {one["metadata"]["name"] for one in found}

    def owned(self) -> list[Document]:
        """Return every object of the operator in the namespace."""
        selector = "?labelSelector=app.kubernetes.io/managed-by=varnish-gateway"
        return [
            {**item, "kind": kind.name}
            for kind in used_for(Use.OWNED)
            for item in self.cluster.request("GET", self.path(kind.name) + selector)["items"]
        ]

    def conditions(self, kind: str, name: str = "gw") -> dict[str, Document]:
        found = self.find(kind, name) or {}
        return {condition["type"]: condition for condition in found.get("status", {}).get("conditions", ())}

    def parents(self, name: str) -> list[Document]:
        """Return the status of a route, by parent."""
        return list(self.get("HTTPRoute", name).get("status", {}).get("parents", ()))

    def routing(self, name: str = "gw") -> wire.Routing:
        return msgspec.json.decode(self.get("ConfigMap", f"{name}-vcl")["data"]["routing.json"], type=wire.Routing)

    def routes(self, name: str = "gw") -> set[str]:
        """Return the routes in the first shard of a Gateway, the empty set where there is none yet."""
        found = self.find("ConfigMap", f"{name}-vcl")
        if found is None or "routing.json" not in found.get("data", {}):
            return set()
        return {route.name for route in self.routing(name).routes}

    def infra_hash(self, name: str = "gw") -> str:
        return str(self.get("Deployment", workload(name))["spec"]["template"]["metadata"]["annotations"][INFRA_HASH])

    def events(self, name: str = "gw") -> dict[str, Document]:
        """Return the Events about an object of the namespace, the last one by reason."""
        found = self.all("Event")
        return {one["reason"]: one for one in found if one["involvedObject"]["name"] == name}

    # -- waiting ----------------------------------------------------------------------------

    def wait_for(self, look: Callable[[], Any], what: str) -> Any:
        try:
            return until(look, what)
        except AssertionError as failure:
            raise AssertionError(f"{failure}\n{self.operator.last_words()}") from failure

    def until_observed(self, name: str = "gw") -> None:
        """Wait until a Gateway's status is about its newest generation, and nothing is left to do."""
        self.wait_for(lambda: _is_observed(self.get("Gateway", name)), f"{name} is observed")
        self.operator.wait_idle()

    def until_condition(self, kind: str, name: str, type_: str, reason: str) -> Document:
        """Wait until a condition has a reason; return it."""
        seen: list[Document] = []

        def has() -> Document | None:
            seen[:] = [self.conditions(kind, name).get(type_, {})]
            return seen[0] if seen[0].get("reason") == reason else None

        try:
            return dict(self.wait_for(has, f"{type_} of {name} has the reason {reason}"))
        except AssertionError as failure:
            raise AssertionError(f"{failure}\nlast: {seen}") from failure

    def until_event(self, reason: str, name: str = "gw") -> Document:
        return dict(self.wait_for(lambda: self.events(name).get(reason), f"an Event {reason}"))


def _is_observed(found: Document) -> bool:
    conditions = found.get("status", {}).get("conditions", ())
    generation = found["metadata"]["generation"]
    return any(c["type"] == "Programmed" and c.get("observedGeneration") == generation for c in conditions)
