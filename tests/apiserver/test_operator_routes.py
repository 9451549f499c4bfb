"""What the HTTPRoute controller writes: routing, statuses of routes, and nothing else."""

from collections.abc import Iterator

import msgspec
import pytest

from cluster.apiserver.server import Cluster
from support.kube.operatorlab import Lab
from support.kube.operators import OURS, gateway, gateway_class, reference_grant, route, service
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


def entries(lab: Lab, name: str, controller: str = OURS) -> list[dict]:
    return [entry for entry in lab.parents(name) if entry["controllerName"] == controller]


def reason(lab: Lab, name: str, type_: str) -> str | None:
    """Return the reason of a condition of ours about a route."""
    conditions = [condition for entry in entries(lab, name) for condition in entry["conditions"]]
    return next((condition["reason"] for condition in conditions if condition["type"] == type_), None)


def attached(lab: Lab) -> list[int]:
    return [listener["attachedRoutes"] for listener in lab.get("Gateway")["status"].get("listeners", ())]


# -- what is written -----------------------------------------------------------------------------


def test_a_route_writes_routing_and_touches_nothing_else(lab):
    lab.put(service(lab.namespace, "tea"), service(lab.namespace, "milk"), route(lab.namespace, "tea", "gw"))
    lab.gateway()
    lab.until(lambda: lab.routes() == {"tea"}, "the first route")
    lab.operator.settled()
    before = {(one["kind"], one["metadata"]["name"]): one for one in lab.owned()}
    lab.put(route(lab.namespace, "milk", "gw"))
    lab.until(lambda: lab.routes() == {"tea", "milk"}, "the second route")
    lab.operator.settled()
    after = {(one["kind"], one["metadata"]["name"]): one for one in lab.owned()}
    assert before.keys() == after.keys()
    changed = [key for key in before if before[key] != after[key]]
    assert changed == [("ConfigMap", "gw-vcl")]
    old, new = before[changed[0]], after[changed[0]]
    assert new["data"]["main.vcl"] == old["data"]["main.vcl"]
    assert new["metadata"]["annotations"] == old["metadata"]["annotations"]
    assert managed_by_the_gateway_controller(new) == managed_by_the_gateway_controller(old)


def managed_by_the_gateway_controller(document: dict) -> list[dict]:
    return [entry for entry in document["metadata"]["managedFields"] if entry["manager"] == "varnish-gateway"]


def test_attached_routes_are_counted(lab):
    for name in ("a", "b", "c"):
        lab.put(service(lab.namespace, name), route(lab.namespace, name, "gw"))
    lab.gateway()
    lab.until(lambda: attached(lab) == [3], "3 routes")
    lab.delete("HTTPRoute", "b")
    lab.until(lambda: attached(lab) == [2], "2 routes")


# -- whose entries -------------------------------------------------------------------------------


def test_what_other_controllers_say_about_a_route_stays_as_it_is(lab):
    lab.put(gateway(lab.namespace, "theirs", "another-class"), service(lab.namespace, "tea"))
    shared = route(lab.namespace, "tea", "theirs")
    lab.put(shared)
    lab.change("HTTPRoute", "tea", {"status": {"parents": [their_entry("theirs")]}}, subresource="status", who="they")
    lab.gateway()
    shared["spec"]["parentRefs"].append({"name": "gw"})
    lab.put(shared)
    lab.until(lambda: entries(lab, "tea"), "an entry of ours")
    assert entries(lab, "tea", THEIRS) == [their_entry("theirs")]
    assert [entry["parentRef"]["name"] for entry in entries(lab, "tea")] == ["gw"]
    shared["spec"]["parentRefs"] = [{"name": "theirs"}]
    lab.put(shared)
    lab.until(lambda: not entries(lab, "tea"), "no entry of ours")
    assert lab.parents("tea") == [their_entry("theirs")]
    assert lab.routes() == set()


def test_a_gateway_of_another_class_is_never_touched(lab):
    lab.put(gateway(lab.namespace, "theirs", "another-class"), service(lab.namespace, "tea"))
    untouched = lab.get("Gateway", "theirs")
    both = route(lab.namespace, "tea", "theirs")
    both["spec"]["parentRefs"].append({"name": "gw"})
    lab.put(both)
    lab.gateway()
    lab.until(lambda: entries(lab, "tea"), "an entry of ours")
    lab.delete("HTTPRoute", "tea")
    lab.until(lambda: lab.routes() == set(), "no route")
    lab.operator.settled()
    assert lab.get("Gateway", "theirs") == untouched
    assert {one["metadata"]["labels"]["gateway.networking.k8s.io/gateway-name"] for one in lab.owned()} == {"gw"}


def test_an_entry_of_a_second_operator_of_ours_stays(lab):
    """Two classes of one controller name, each with its operator: neither removes what the other says."""
    lab.put(gateway_class("second"), gateway(lab.namespace, "theirs", "second"), service(lab.namespace, "tea"))
    both = route(lab.namespace, "tea", "theirs")
    lab.put(both)
    said = their_entry("theirs") | {"controllerName": OURS}
    lab.change("HTTPRoute", "tea", {"status": {"parents": [said]}}, subresource="status", who="they")
    lab.gateway()
    both["spec"]["parentRefs"].append({"name": "gw"})
    lab.put(both)
    lab.until(lambda: len(entries(lab, "tea")) == 2, "an entry of each")
    assert said in entries(lab, "tea")
    lab.delete("GatewayClass", "second")


def test_a_condition_of_somebody_else_in_our_own_entry_stays(lab):
    lab.put(service(lab.namespace, "tea"), route(lab.namespace, "tea", "gw"))
    lab.gateway()
    (own,) = lab.until(lambda: entries(lab, "tea"), "an entry of ours")
    (blessed,) = their_entry("gw")["conditions"]
    both = own | {"conditions": [*own["conditions"], blessed]}
    lab.change("HTTPRoute", "tea", {"status": {"parents": [both]}}, subresource="status", who="they")
    lab.delete("Service", "tea")
    lab.until(lambda: reason(lab, "tea", "ResolvedRefs") == "BackendNotFound", "a condition of ours that changes")
    (entry,) = entries(lab, "tea")
    assert [each["type"] for each in entry["conditions"]] == ["Accepted", "ResolvedRefs", "example.com/Blessed"]
    assert entry["conditions"][-1] == blessed


def test_a_route_with_very_much_wrong_is_told_so(lab):
    far = route(lab.namespace, "tea", "gw")
    far["spec"]["rules"] = [
        {"backendRefs": [{"name": f"{'x' * 40}-{n}-{m}", "namespace": "elsewhere", "port": 80} for m in range(16)]}
        for n in range(16)
    ]
    lab.put(far)
    lab.gateway()
    lab.until(lambda: reason(lab, "tea", "ResolvedRefs") == "RefNotPermitted", "a status that can be stored")


# -- grants and namespaces -----------------------------------------------------------------------


def test_grants_come_and_go_at_any_time(lab, backends):
    lab.put(route(lab.namespace, "tea", "gw", backend={"namespace": backends}))
    lab.gateway()
    lab.until(lambda: reason(lab, "tea", "ResolvedRefs") == "RefNotPermitted", "no permission")
    assert routed_services(lab) == {None}
    lab.put(reference_grant(backends, lab.namespace))
    lab.until(lambda: reason(lab, "tea", "ResolvedRefs") == "ResolvedRefs", "permission")
    assert routed_services(lab) == {f"{backends}/tea"}
    lab.delete("ReferenceGrant", "grant", backends)
    lab.until(lambda: reason(lab, "tea", "ResolvedRefs") == "RefNotPermitted", "no permission again")
    assert routed_services(lab) == {None}


def routed_services(lab: Lab) -> set[str | None]:
    lab.operator.settled()
    backends = [one for route in lab.routing().routes for rule in route.rules for one in rule.backends]
    return {backend.service for backend in backends}


def test_endpoints_may_be_read_where_routes_point_and_only_as_long_as_they_do(lab, backends):
    lab.gateway()
    assert lab.names("RoleBinding", backends) == set()
    lab.put(
        reference_grant(backends, lab.namespace), route(lab.namespace, "tea", "gw", backend={"namespace": backends})
    )
    lab.until(lambda: lab.names("RoleBinding", backends), "a binding")
    name = endpoints_binding(lab.namespace, "gw")
    binding = lab.get("RoleBinding", name, backends)
    assert binding["roleRef"]["name"] == "varnish-gateway-chaperone"
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "gw", "namespace": lab.namespace}]
    assert "ownerReferences" not in binding["metadata"]
    lab.put(service(lab.namespace, "milk"), route(lab.namespace, "milk", "gw"))
    lab.until(lambda: lab.find("RoleBinding", name), "a binding at home")
    lab.delete("HTTPRoute", "tea")
    lab.until(lambda: lab.names("RoleBinding", backends) == set(), "no binding there")
    assert lab.find("RoleBinding", name)


# -- shards --------------------------------------------------------------------------------------


def shards(lab: Lab) -> dict[int, str]:
    """Return the text of every further shard that there is."""
    found = {one["metadata"]["name"]: one["data"] for one in lab.owned() if one["kind"] == "ConfigMap"}
    return {int(name.removeprefix("gw-vcl-")): data["routing.json"] for name, data in found.items() if name != "gw-vcl"}


def index(lab: Lab) -> tuple[str, ...]:
    text = lab.get("ConfigMap", "gw-vcl")["data"].get("shards.json")
    return msgspec.json.decode(text, type=wire.Index).shards if text else ()


def all_routes(lab: Lab) -> set[str]:
    texts = [lab.get("ConfigMap", "gw-vcl")["data"]["routing.json"], *shards(lab).values()]
    parts = [msgspec.json.decode(text, type=wire.Routing) for text in texts]
    assert {part.shards for part in parts} == {len(parts)}
    return {route.name for part in parts for route in part.routes}


def test_many_routes_are_in_shards_that_an_index_names(lab):
    names = {f"r{number}" for number in range(200)}
    lab.put(service(lab.namespace, "tea"))
    lab.put(*(route(lab.namespace, name, "gw", backend={"name": "tea"}) for name in names))
    lab.gateway()
    lab.until(lambda: len(index(lab)) == 4 and attached(lab) == [200], "4 shards")
    lab.operator.settled()
    texts = shards(lab)
    assert index(lab) == ("", *(content_hash(texts[number].encode()) for number in (1, 2, 3)))
    assert all_routes(lab) == names
    granted = {name for rule in lab.get("Role")["rules"] for name in rule["resourceNames"]}
    assert granted >= {"gw-vcl", "gw-vcl-1", "gw-vcl-2", "gw-vcl-3", "gw-tls"}
    assert {one["metadata"]["ownerReferences"][0]["name"] for one in lab.owned()} == {"gw"}
    for name in sorted(names)[10:]:
        lab.delete("HTTPRoute", name)
    lab.until(lambda: attached(lab) == [10], "10 routes")
    lab.until(lambda: not shards(lab), "one shard")
    assert index(lab) == ()
    assert all_routes(lab) == set(sorted(names)[:10])
