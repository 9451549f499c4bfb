"""What the HTTPRoute controller writes: routing, statuses of routes, and nothing else."""

from collections.abc import Iterator

import msgspec
import pytest

from cluster.apiserver.server import Cluster
from support.kube.documents import OURS, gateway, gateway_class, reference_grant, route, service
from support.kube.operator_harness import OperatorHarness
from varnish_gateway.emit.names import endpoints_binding
from varnish_gateway.emit.routing import content_hash
from varnish_gateway.ir import wire

THEIRS = "example.com/another"


@pytest.fixture
def backends(cluster: Cluster, namespace: str) -> Iterator[str]:
    """Have a second namespace with a Service ``tea``."""
    name = f"{namespace}-backends"
    cluster.create_namespace(name)
    cluster.request("POST", f"/api/v1/namespaces/{name}/services", service(name, "tea"))
    yield name
    cluster.clear_namespace(name)


def their_entry(name: str) -> dict:
    """Return what another controller says about a route, with a condition that we know nothing of."""
    condition = {
        "type": "example.com/Blessed",
        "status": "True",
        "reason": "Since",
        "message": "  as it  is ",
        "observedGeneration": 7,
        "lastTransitionTime": "2001-02-03T04:05:06Z",
    }
    parent = {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": name}
    return {"parentRef": parent, "controllerName": THEIRS, "conditions": [condition]}


def entries(harness: OperatorHarness, name: str, controller: str = OURS) -> list[dict]:
    return [entry for entry in harness.parents(name) if entry["controllerName"] == controller]


def reason(harness: OperatorHarness, name: str, type_: str) -> str | None:
    """Return the reason of a condition of ours about a route."""
    conditions = [condition for entry in entries(harness, name) for condition in entry["conditions"]]
    return next((condition["reason"] for condition in conditions if condition["type"] == type_), None)


def attached(harness: OperatorHarness) -> list[int]:
    return [listener["attachedRoutes"] for listener in harness.get("Gateway")["status"].get("listeners", ())]


# -- what is written -----------------------------------------------------------------------------


def test_new_route_writes_only_routing(harness):
    harness.put(
        service(harness.namespace, "tea"), service(harness.namespace, "milk"), route(harness.namespace, "tea", "gw")
    )
    harness.gateway()
    harness.wait_for(lambda: harness.routes() == {"tea"}, "the first route")
    harness.operator.wait_idle()
    before = {(one["kind"], one["metadata"]["name"]): one for one in harness.owned()}
    harness.put(route(harness.namespace, "milk", "gw"))
    harness.wait_for(lambda: harness.routes() == {"tea", "milk"}, "the second route")
    harness.operator.wait_idle()
    after = {(one["kind"], one["metadata"]["name"]): one for one in harness.owned()}
    assert before.keys() == after.keys()
    changed = [key for key in before if before[key] != after[key]]
    assert changed == [("ConfigMap", "gw-vcl")]
    old, new = before[changed[0]], after[changed[0]]
    assert new["data"]["main.vcl"] == old["data"]["main.vcl"]
    assert new["metadata"]["annotations"] == old["metadata"]["annotations"]
    assert managed_by_the_gateway_controller(new) == managed_by_the_gateway_controller(old)


def managed_by_the_gateway_controller(document: dict) -> list[dict]:
    return [entry for entry in document["metadata"]["managedFields"] if entry["manager"] == "varnish-gateway"]


def test_attached_routes_are_counted(harness):
    for name in ("a", "b", "c"):
        harness.put(service(harness.namespace, name), route(harness.namespace, name, "gw"))
    harness.gateway()
    harness.wait_for(lambda: attached(harness) == [3], "3 routes")
    harness.delete("HTTPRoute", "b")
    harness.wait_for(lambda: attached(harness) == [2], "2 routes")


# -- whose entries -------------------------------------------------------------------------------


def test_status_entries_of_other_controllers_are_kept(harness):
    harness.put(gateway(harness.namespace, "theirs", "another-class"), service(harness.namespace, "tea"))
    shared = route(harness.namespace, "tea", "theirs")
    harness.put(shared)
    harness.change(
        "HTTPRoute", "tea", {"status": {"parents": [their_entry("theirs")]}}, subresource="status", who="they"
    )
    harness.gateway()
    shared["spec"]["parentRefs"].append({"name": "gw"})
    harness.put(shared)
    harness.wait_for(lambda: entries(harness, "tea"), "an entry of ours")
    assert entries(harness, "tea", THEIRS) == [their_entry("theirs")]
    assert [entry["parentRef"]["name"] for entry in entries(harness, "tea")] == ["gw"]
    shared["spec"]["parentRefs"] = [{"name": "theirs"}]
    harness.put(shared)
    harness.wait_for(lambda: not entries(harness, "tea"), "no entry of ours")
    assert harness.parents("tea") == [their_entry("theirs")]
    assert harness.routes() == set()


def test_a_gateway_of_another_class_is_never_touched(harness):
    harness.put(gateway(harness.namespace, "theirs", "another-class"), service(harness.namespace, "tea"))
    untouched = harness.get("Gateway", "theirs")
    both = route(harness.namespace, "tea", "theirs")
    both["spec"]["parentRefs"].append({"name": "gw"})
    harness.put(both)
    harness.gateway()
    harness.wait_for(lambda: entries(harness, "tea"), "an entry of ours")
    harness.delete("HTTPRoute", "tea")
    harness.wait_for(lambda: harness.routes() == set(), "no route")
    harness.operator.wait_idle()
    assert harness.get("Gateway", "theirs") == untouched
    assert {one["metadata"]["labels"]["gateway.networking.k8s.io/gateway-name"] for one in harness.owned()} == {"gw"}


def test_status_entry_of_a_second_operator_is_kept(harness):
    """Two classes of one controller name, each with its operator: neither removes what the other says."""
    harness.put(
        gateway_class("second"), gateway(harness.namespace, "theirs", "second"), service(harness.namespace, "tea")
    )
    both = route(harness.namespace, "tea", "theirs")
    harness.put(both)
    reported = their_entry("theirs") | {"controllerName": OURS}
    harness.change("HTTPRoute", "tea", {"status": {"parents": [reported]}}, subresource="status", who="they")
    harness.gateway()
    both["spec"]["parentRefs"].append({"name": "gw"})
    harness.put(both)
    harness.wait_for(lambda: len(entries(harness, "tea")) == 2, "an entry of each")
    assert reported in entries(harness, "tea")
    harness.delete("GatewayClass", "second")


def test_foreign_condition_in_our_status_entry_is_kept(harness):
    harness.put(service(harness.namespace, "tea"), route(harness.namespace, "tea", "gw"))
    harness.gateway()
    (own,) = harness.wait_for(lambda: entries(harness, "tea"), "an entry of ours")
    (blessed,) = their_entry("gw")["conditions"]
    both = own | {"conditions": [*own["conditions"], blessed]}
    harness.change("HTTPRoute", "tea", {"status": {"parents": [both]}}, subresource="status", who="they")
    harness.delete("Service", "tea")
    harness.wait_for(
        lambda: reason(harness, "tea", "ResolvedRefs") == "BackendNotFound", "a condition of ours that changes"
    )
    (entry,) = entries(harness, "tea")
    assert [each["type"] for each in entry["conditions"]] == ["Accepted", "ResolvedRefs", "example.com/Blessed"]
    assert entry["conditions"][-1] == blessed


def test_route_with_many_errors_gets_a_storable_status(harness):
    far = route(harness.namespace, "tea", "gw")
    far["spec"]["rules"] = [
        {"backendRefs": [{"name": f"{'x' * 40}-{n}-{m}", "namespace": "elsewhere", "port": 80} for m in range(16)]}
        for n in range(16)
    ]
    harness.put(far)
    harness.gateway()
    harness.wait_for(lambda: reason(harness, "tea", "ResolvedRefs") == "RefNotPermitted", "a status that can be stored")


# -- grants and namespaces -----------------------------------------------------------------------


def test_added_and_removed_grants_change_resolved_refs(harness, backends):
    harness.put(route(harness.namespace, "tea", "gw", backend={"namespace": backends}))
    harness.gateway()
    harness.wait_for(lambda: reason(harness, "tea", "ResolvedRefs") == "RefNotPermitted", "no permission")
    assert routed_services(harness) == {None}
    harness.put(reference_grant(backends, harness.namespace))
    harness.wait_for(lambda: reason(harness, "tea", "ResolvedRefs") == "ResolvedRefs", "permission")
    assert routed_services(harness) == {f"{backends}/tea"}
    harness.delete("ReferenceGrant", "grant", backends)
    harness.wait_for(lambda: reason(harness, "tea", "ResolvedRefs") == "RefNotPermitted", "no permission again")
    assert routed_services(harness) == {None}


def routed_services(harness: OperatorHarness) -> set[str | None]:
    harness.operator.wait_idle()
    backends = [one for route in harness.routing().routes for rule in route.rules for one in rule.backends]
    return {backend.service for backend in backends}


def test_endpoint_permissions_follow_route_backends(harness, backends):
    harness.gateway()
    assert harness.names("RoleBinding", backends) == set()
    harness.put(
        reference_grant(backends, harness.namespace),
        route(harness.namespace, "tea", "gw", backend={"namespace": backends}),
    )
    harness.wait_for(lambda: harness.names("RoleBinding", backends), "a binding")
    name = endpoints_binding(harness.namespace, "gw")
    binding = harness.get("RoleBinding", name, backends)
    assert binding["roleRef"]["name"] == "varnish-gateway-chaperone"
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "gw-vgw", "namespace": harness.namespace}]
    assert "ownerReferences" not in binding["metadata"]
    harness.put(service(harness.namespace, "milk"), route(harness.namespace, "milk", "gw"))
    harness.wait_for(lambda: harness.find("RoleBinding", name), "a binding at home")
    harness.delete("HTTPRoute", "tea")
    harness.wait_for(lambda: harness.names("RoleBinding", backends) == set(), "no binding there")
    assert harness.find("RoleBinding", name)


# -- shards --------------------------------------------------------------------------------------


def shards(harness: OperatorHarness) -> dict[int, str]:
    """Return the text of every further shard that there is."""
    found = {one["metadata"]["name"]: one["data"] for one in harness.owned() if one["kind"] == "ConfigMap"}
    return {int(name.removeprefix("gw-vcl-")): data["routing.json"] for name, data in found.items() if name != "gw-vcl"}


def index(harness: OperatorHarness) -> tuple[str, ...]:
    text = harness.get("ConfigMap", "gw-vcl")["data"].get("shards.json")
    return msgspec.json.decode(text, type=wire.Index).shards if text else ()


def all_routes(harness: OperatorHarness) -> set[str]:
    texts = [harness.get("ConfigMap", "gw-vcl")["data"]["routing.json"], *shards(harness).values()]
    parts = [msgspec.json.decode(text, type=wire.Routing) for text in texts]
    assert {part.shards for part in parts} == {len(parts)}
    return {route.name for part in parts for route in part.routes}


def test_many_routes_are_sharded_and_indexed(harness):
    names = {f"r{number}" for number in range(200)}
    harness.put(service(harness.namespace, "tea"))
    harness.put(*(route(harness.namespace, name, "gw", backend={"name": "tea"}) for name in names))
    harness.gateway()
    harness.wait_for(lambda: len(index(harness)) == 4 and attached(harness) == [200], "4 shards")
    harness.operator.wait_idle()
    texts = shards(harness)
    assert index(harness) == ("", *(content_hash(texts[number].encode()) for number in (1, 2, 3)))
    assert all_routes(harness) == names
    granted = {name for rule in harness.get("Role")["rules"] for name in rule["resourceNames"]}
    assert granted >= {"gw-vcl", "gw-vcl-1", "gw-vcl-2", "gw-vcl-3", "gw-vgw-tls"}
    assert {one["metadata"]["ownerReferences"][0]["name"] for one in harness.owned()} == {"gw"}
    for name in sorted(names)[10:]:
        harness.delete("HTTPRoute", name)
    harness.wait_for(lambda: attached(harness) == [10], "10 routes")
    harness.wait_for(lambda: not shards(harness), "one shard")
    assert index(harness) == ()
    assert all_routes(harness) == set(sorted(names)[:10])
