"""Changes of all kinds to what an operator reads, by chance.

In:   a seed. The same seed makes the same changes.
Out:  Gateways, ListenerSets, routes, Services, ReferenceGrants and user VCL created, edited and deleted.
"""

import contextlib
import random
from typing import Any, NamedTuple

from cluster.apiserver.server import Cluster
from cluster.errors import Refused
from support.kube.bulk import create_all
from support.kube.documents import (
    gateway,
    gateway_class,
    listener_set,
    parameters,
    path_of,
    reference_grant,
    route,
    service,
)

GATEWAYS = ("front", "back")
Document = dict[str, Any]


class ChurnSize(NamedTuple):
    """How many there may be of each, and how many routes there are from the start. Gateways may come and go too."""

    routes: int
    first_routes: int
    services: int
    sets: int
    gateways_go: bool = False


MANY = ChurnSize(routes=200, first_routes=120, services=5, sets=6)
"""Changes add and remove shards."""
FEW = ChurnSize(routes=8, first_routes=3, services=2, sets=2, gateways_go=True)
"""Deleted objects are often created again a moment later."""


def user_vcl(namespace: str, text: str = "sub vcl_deliver { set resp.http.x = 1; }") -> Document:
    metadata = {"name": "vcl", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"user.vcl": text}}


class Churn:
    """``port`` is that of the API server to which changes go."""

    def __init__(self, cluster: Cluster, class_name: str, seed: int, names: ChurnSize = MANY) -> None:
        self.port = cluster.port
        self._names = names
        self._cluster = cluster
        self._class = class_name
        self._home, self._away = class_name, f"{class_name}-away"
        self._chance = random.Random(seed)
        self._turn = 0

    def begin(self) -> None:
        for namespace in (self._home, self._away):
            self._cluster.create_namespace(namespace)
        ref = {"name": "vcl", "namespace": self._home, "key": "user.vcl"}
        self._put(user_vcl(self._home), parameters(self._class, userVCLConfigMapRef=ref))
        self._put(gateway_class(self._class, parameters=self._class))
        self.put_gateways()
        self._put(*(service(self._home, f"s{number}") for number in range(self._names.services)))
        names = (f"r{number}" for number in range(self._names.first_routes))
        create_all(self._cluster, (route(self._home, name, "front", backend={"name": "s0"}) for name in names))

    def put_gateways(self) -> None:
        """Have both Gateways."""
        allowed = {"allowedListeners": {"namespaces": {"from": "Same"}}}
        self._put(*(gateway(self._home, name, self._class, **allowed) for name in GATEWAYS))

    def end(self) -> None:
        """Remove what is in no namespace."""
        self._delete(gateway_class(self._class))
        self._delete(parameters(self._class))

    def change(self) -> None:
        """Make one change."""
        self._turn += 1
        changes = {
            self._put_route: 10,
            self._drop_route: 4,
            self._put_gateway: 2,
            self._drop_gateway: 1 if self._names.gateways_go else 0,
            self._put_set: 3,
            self._put_vcl: 1,
            self._grant: 2,
            self._serve: 2,
        }
        self._chance.choices(list(changes), weights=list(changes.values()))[0]()

    def _put_route(self) -> None:
        target = {"name": f"s{self._chance.randrange(self._names.services)}"}
        if self._chance.random() < 0.4:
            target["namespace"] = self._away
        name = f"r{self._chance.randrange(self._names.routes)}"
        made = route(self._home, name, self._chance.choice(GATEWAYS), backend=target)
        if self._chance.random() < 0.3:
            made["spec"]["parentRefs"].append(
                {"kind": "ListenerSet", "name": f"l{self._chance.randrange(self._names.sets)}"}
            )
            del made["spec"]["hostnames"]
        made["spec"]["rules"][0]["matches"] = [{"path": {"type": "PathPrefix", "value": f"/{self._turn}"}}]
        self._put(made)

    def _drop_route(self) -> None:
        self._delete(route(self._home, f"r{self._chance.randrange(self._names.routes)}", "front"))

    def _put_gateway(self) -> None:
        ports = self._chance.choice(((80,), (80, 8080), (8080, 8090)))
        infrastructure = {"labels": {"turn": str(self._turn)}}
        name = self._chance.choice(GATEWAYS)
        allowed = {"namespaces": {"from": self._chance.choice(("Same", "Same", "None"))}}
        more = {"infrastructure": infrastructure, "allowedListeners": allowed}
        self._put(gateway(self._home, name, self._class, ports=ports, **more))

    def _drop_gateway(self) -> None:
        self._delete(gateway(self._home, self._chance.choice(GATEWAYS), self._class))

    def _put_set(self) -> None:
        name = f"l{self._chance.randrange(self._names.sets)}"
        host = f"{self._chance.choice('abc')}.example.com"
        port = self._chance.choice((80, 80, 8080))
        made = listener_set(self._home, name, self._chance.choice(GATEWAYS), hostname=host, port=port)
        if self._chance.random() < 0.7:
            self._put(made)
        else:
            self._delete(made)

    def _put_vcl(self) -> None:
        self._put(user_vcl(self._home, f'sub vcl_deliver {{ set resp.http.turn = "{self._turn}"; }}'))

    def _grant(self) -> None:
        grant = reference_grant(self._away, self._home)
        if self._chance.random() < 0.5:
            self._put(grant)
        else:
            self._delete(grant)

    def _serve(self) -> None:
        namespace = self._chance.choice((self._home, self._away))
        chosen = service(namespace, f"s{self._chance.randrange(self._names.services)}")
        if self._chance.random() < 0.7:
            self._put(chosen)
        else:
            self._delete(chosen)

    def _put(self, *documents: Document) -> None:
        for document in documents:
            path = f"{path_of(document)}?fieldManager=kubectl&force=true"
            patch = "application/apply-patch+yaml"
            self._cluster.request("PATCH", path, document, content_type=patch, port=self.port)

    def _delete(self, document: Document) -> None:
        with contextlib.suppress(Refused):  # it may not be there
            self._cluster.request("DELETE", path_of(document), port=self.port)
