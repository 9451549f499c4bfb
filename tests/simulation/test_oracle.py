"""The oracle of the simulation notices what it is there for."""

import json
from collections.abc import Callable

import pytest

from support.kube.documents import backend_tls_policy, gateway, listener_set, route
from support.simulation import virtualtime
from support.simulation.documents import AWAY, BACKEND, HOME, OTHERS, OURS, Document, basics, pod
from support.simulation.fields import copied
from support.simulation.operators import SimulatedOperator, at_rest
from support.simulation.oracle import Oracle
from support.simulation.store import Store
from varnish_gateway.api import Key

GATEWAY, ROUTE, SET = Key("Gateway", HOME, "g1"), Key("HTTPRoute", HOME, "r1"), Key("ListenerSet", HOME, "s1")
CLASS = Key("GatewayClass", "", OURS)
Documents = dict[Key, Document]


async def cluster() -> Documents:
    """Return a cluster in which an operator has done everything."""
    store = Store()
    store.put(*basics(), gateway(HOME, "g1", OURS, allowedListeners={"namespaces": {"from": "All"}}))
    store.put(listener_set(HOME, "s1", "g1", port=8090), pod("telling", "g1", OURS))
    store.put(route(HOME, "r1", "g1", backend={"name": BACKEND, "namespace": AWAY}))
    operators = [SimulatedOperator(store, class_name=name) for name in (OURS, OTHERS)]
    assert await at_rest(store, operators)
    store.give_addresses()
    assert await at_rest(store, operators)
    for one in operators:
        await one.stop()
    return dict(store.documents)


@pytest.fixture(scope="module")
def at_its_best() -> Documents:
    return virtualtime.run(cluster())


def condition(document: Document, type_: str) -> Document:
    return next(one for one in document["status"]["conditions"] if one["type"] == type_)


def drop(kind: str, namespace: str = HOME) -> Callable[[Documents], object]:
    def change(documents: Documents) -> None:
        for key in [key for key, one in documents.items() if _is_generated(one) and key[:2] == (kind, namespace)]:
            del documents[key]

    return change


def _is_generated(document: Document) -> bool:
    return "app.kubernetes.io/managed-by" in document["metadata"].get("labels", {}) and document["kind"] != "Pod"


def set_false(key: Key, type_: str) -> Callable[[Documents], object]:
    return lambda documents: condition(documents[key], type_).update(status="False")


def close_port(documents: Documents) -> None:
    """Take the ListenerSet's listeners from the routing, which pods open ports by."""
    for key, document in documents.items():
        if key.kind == "ConfigMap" and "routing.json" in document["data"]:
            routing = json.loads(document["data"]["routing.json"])
            routing["listeners"] = [one for one in routing.get("listeners", ()) if "/" not in one["name"]]
            document["data"]["routing.json"] = json.dumps(routing)


def age_pods(documents: Documents) -> None:
    """Make the pods some of the previous version, for which the Deployment has to have the ports."""
    for key in [key for key in documents if key.kind == "Pod"]:
        pod = documents.pop(key)
        pod["metadata"]["name"] = f"old-{key.name}"
        documents[Key("Pod", key.namespace, f"old-{key.name}")] = pod
    deployment = next(document for key, document in documents.items() if key.kind == "Deployment")
    for variable in deployment["spec"]["template"]["spec"]["containers"][0]["env"]:
        variable.update({"value": "http-80=:80,http"} if variable["name"] == "VARNISH_LISTEN" else {})


CHANGES: dict[str, Callable[[Documents], object]] = {
    "a Deployment is missing": drop("Deployment"),
    "a port of the ListenerSet is closed": close_port,
    "a port of the ListenerSet is closed in old pods": age_pods,
    "a ConfigMap is missing": drop("ConfigMap"),
    "a Secret is missing": drop("Secret"),
    "the Gateway is gone": lambda documents: documents.pop(GATEWAY),
    "the Gateway is another": lambda documents: documents[GATEWAY]["metadata"].update(uid="another"),
    "the Gateway has another generation": lambda documents: documents[GATEWAY]["metadata"].update(generation=7),
    "the Gateway is not accepted": set_false(GATEWAY, "Accepted"),
    "the Gateway is not programmed": set_false(GATEWAY, "Programmed"),
    "its pod is gone": lambda documents: documents.pop(Key("Pod", HOME, "telling")),
    "the ListenerSet is not programmed": set_false(SET, "Programmed"),
    "the class is not accepted": set_false(CLASS, "Accepted"),
    "the class has no finalizer": lambda documents: documents[CLASS]["metadata"].pop("finalizers"),
    "the class has no parameters": lambda documents: documents.pop(Key("GatewayClassParameters", "", OURS)),
    "the route has no status": lambda documents: documents[ROUTE].pop("status"),
    "the route is gone": lambda documents: documents.pop(ROUTE),
    "the route has another parent": lambda documents: documents[ROUTE]["spec"].update(parentRefs=[{"name": "g2"}]),
    "the backend is gone": lambda documents: documents.pop(Key("Service", AWAY, BACKEND)),
    "the backend needs TLS": lambda documents: documents.update(
        {Key("BackendTLSPolicy", AWAY, "tls"): backend_tls_policy(AWAY, BACKEND)}
    ),
    "the grant is gone": lambda documents: documents.pop(Key("ReferenceGrant", AWAY, "grant")),
}


def test_cluster_that_is_right_has_no_problem(at_its_best):
    assert Oracle(at_its_best).problems() == []


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_cluster_that_is_wrong_has_a_problem(at_its_best, change):
    documents = {key: copied(document) for key, document in at_its_best.items()}
    change(documents)
    assert Oracle(documents).problems()


def test_pod_of_a_lost_node_counts(at_its_best):
    assert "Programmed is True" in str(Oracle(at_its_best, {"telling"}).problems())
