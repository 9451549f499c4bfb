"""A cluster with CRDs of an earlier Gateway API, which serves BackendTLSPolicies as v1alpha3 alone."""

import json

import pytest

from support.kube.documents import backend_tls_policy, gateway, route
from support.simulation.documents import BACKEND, HOME, OURS, Document, basics, pod
from support.simulation.operators import SimulatedOperator, at_rest
from support.simulation.store import Store
from support.simulation.virtualtime import in_virtual_time
from varnish_gateway.api import Key
from varnish_gateway.emit import names

KIND = "BackendTLSPolicy"
POLICY = Key(KIND, HOME, "tls")
MAIN = Key("ConfigMap", HOME, names.config_map("gw"))


def cluster(version: str) -> Store:
    store = Store()
    store.older[KIND] = version
    web = route(HOME, "web", "gw", backend={"name": BACKEND})
    policy = {**backend_tls_policy(HOME, BACKEND), "apiVersion": f"gateway.networking.k8s.io/{version}"}
    store.put(*basics(), gateway(HOME, "gw", OURS), pod("gw-0", "gw", OURS), web, policy)
    return store


def backends(store: Store) -> list[Document]:
    """Return the backends to which pods send requests."""
    [web] = json.loads(store.documents[MAIN]["data"][names.ROUTING])["routes"]
    return [backend for backend in web["rules"][0].get("backends", ()) if "service" in backend]


def accepted(store: Store) -> list[str]:
    entries = store.documents[POLICY].get("status", {}).get("ancestors", ())
    return [one["status"] for entry in entries for one in entry["conditions"] if one["type"] == "Accepted"]


@pytest.mark.parametrize("version", ["v1", "v1alpha3"])
@in_virtual_time
async def test_backend_that_requires_tls_gets_no_plain_http_in_any_version_of_the_crd(version: str):
    store = cluster(version)
    operator = SimulatedOperator(store)
    assert await at_rest(store, [operator])
    assert backends(store) == []
    assert accepted(store) == ["False"]
    assert operator.bugs == []
    await operator.stop()


@in_virtual_time
async def test_status_is_written_in_the_version_that_an_upgrade_of_the_crd_leaves():
    store = cluster("v1alpha3")
    operator = SimulatedOperator(store)
    assert await at_rest(store, [operator])
    store.older[KIND] = "v1"
    store.break_watches()
    store.delete(Key("HTTPRoute", HOME, "web"))
    assert await at_rest(store, [operator])
    assert accepted(store) == []
    assert operator.bugs == []
    await operator.stop()
