"""Others at the same objects, and objects that the API server refuses."""

import pytest

from support.kube.documents import gateway, gateway_class, put, route, service
from support.kube.operator_harness import GATEWAY_OBJECTS, OperatorHarness
from support.kube.operator_process import OperatorProcess
from varnish_gateway.emit.names import GATEWAY_MANAGER, INFRA_HASH

BAD_TOLERATION = {"tolerations": [{"key": "a", "operator": "Maybe"}]}


def applies(harness: OperatorHarness, kind: str) -> int:
    """Return how often the operator has applied objects of a kind."""
    return int(harness.operator.wait_idle().writes().get(f"{kind} apply", 0))


def replicas(harness: OperatorHarness) -> int:
    return int(harness.get("Deployment")["spec"]["replicas"])


# -- fields of others ----------------------------------------------------------------------------


def test_field_taken_over_by_another_manager_is_left_to_it(harness):
    harness.gateway()
    harness.cluster.kubectl("scale", "deployment/gw-vgw", "--replicas=3", "-n", harness.namespace)
    reported = harness.until_event("FieldConflict")
    assert ".spec.replicas is left to kubectl" in reported["message"]
    assert replicas(harness) == 3
    before = applies(harness, "Deployment")
    harness.gateway(ports=(80, 81))
    assert len(harness.get("Deployment")["spec"]["template"]["spec"]["containers"][0]["ports"]) == 3
    assert replicas(harness) == 3
    assert applies(harness, "Deployment") - before <= 2  # once with the field, for they may have let go of it
    assert harness.conditions("Gateway")["Programmed"]["reason"] == "AddressNotAssigned"


def test_released_field_is_applied_again(harness):
    harness.gateway()
    theirs = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "gw-vgw"}}
    harness.cluster.apply(harness.path("Deployment", "gw-vgw"), {**theirs, "spec": {"replicas": 3}}, manager="gitops")
    harness.until_event("FieldConflict")
    harness.operator.wait_idle()
    harness.cluster.apply(harness.path("Deployment", "gw-vgw"), theirs, manager="gitops")
    harness.wait_for(lambda: replicas(harness) == 1, "as many pods as without them")


def test_forced_apply_by_another_manager_is_not_fought(harness):
    """Another manager that applies the same field again and again: each time costs a few writes at most."""
    harness.gateway()
    image = {"containers": [{"name": "gateway", "image": "example.com/mine:1"}]}
    theirs = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "gw-vgw"},
        "spec": {"template": {"spec": image}},
    }
    before = applies(harness, "Deployment")
    harness.cluster.apply(harness.path("Deployment", "gw-vgw"), theirs, manager="gitops")
    harness.until_event("FieldConflict")
    assert applies(harness, "Deployment") - before <= 2
    image["containers"][0]["image"] = "example.com/mine:2"
    harness.cluster.apply(harness.path("Deployment", "gw-vgw"), theirs, manager="gitops")
    harness.change("Deployment", "gw-vgw", {"metadata": {"labels": {"team": "milk"}}})
    harness.gateway(infrastructure={"annotations": {"a": "b"}})
    found = harness.get("Deployment")
    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "example.com/mine:2"
    assert found["spec"]["template"]["metadata"]["annotations"]["a"] == "b"
    assert applies(harness, "Deployment") - before <= 6


@pytest.mark.parametrize("key", ["main.vcl", "routing.json"])
def test_an_edited_config_map_is_reported_and_not_fought_over(harness, key):
    harness.gateway()
    before = applies(harness, "ConfigMap")
    edited = "vcl 4.1; backend default none;" if key == "main.vcl" else "{}"
    harness.change("ConfigMap", "gw-vcl", {"data": {key: edited}})
    reported = harness.until_condition("Gateway", "gw", "Programmed", "Invalid")
    assert f".data.{key}" in reported["message"]
    assert "somebody" in reported["message"]
    harness.until_event("FieldConflict")
    assert harness.get("ConfigMap", "gw-vcl")["data"][key] == edited
    assert applies(harness, "ConfigMap") - before <= 10  # with a growing delay between them
    harness.delete("ConfigMap", "gw-vcl")
    harness.until_condition("Gateway", "gw", "Programmed", "AddressNotAssigned")
    assert harness.get("ConfigMap", "gw-vcl")["data"][key] != edited


# -- what is taken away --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name"),
    sorted(GATEWAY_OBJECTS),
)
def test_deleted_object_is_recreated(harness, kind, name):
    was = harness.gateway() and harness.get(kind, name)
    harness.delete(kind, name)
    harness.wait_for(
        lambda: (harness.find(kind, name) or was)["metadata"]["uid"] != was["metadata"]["uid"], "another one"
    )
    harness.operator.wait_idle()
    found = harness.get(kind, name)
    assert found["metadata"]["labels"] == was["metadata"]["labels"]
    assert found.get("data") == was.get("data")


def test_removed_field_is_restored_once(harness):
    harness.gateway()
    writes = {kind: applies(harness, kind) for kind in ("ConfigMap", "Deployment")}
    harness.change("ConfigMap", "gw-vcl", {"data": {"routing.json": None}})
    harness.change("Deployment", "gw-vgw", {"spec": {"template": {"metadata": {"annotations": {INFRA_HASH: None}}}}})
    harness.wait_for(lambda: "routing.json" in harness.get("ConfigMap", "gw-vcl")["data"], "routing.json")
    annotations = lambda: harness.get("Deployment")["spec"]["template"]["metadata"]["annotations"]  # noqa: E731
    harness.wait_for(lambda: INFRA_HASH in annotations(), "the hash")
    assert applies(harness, "ConfigMap") - writes["ConfigMap"] == 1
    assert applies(harness, "Deployment") - writes["Deployment"] == 1


@pytest.mark.parametrize(("kind", "name"), [("ConfigMap", "gw-vcl"), ("Deployment", "gw-vgw")])
def test_an_object_without_its_label_is_found_again(harness, kind, name):
    harness.gateway()
    uid = harness.get(kind, name)["metadata"]["uid"]
    label = "app.kubernetes.io/managed-by"
    harness.change(kind, name, {"metadata": {"labels": {label: None}}})
    harness.wait_for(lambda: label in harness.get(kind, name)["metadata"]["labels"], "the label")
    assert harness.get(kind, name)["metadata"]["uid"] == uid


def test_binding_to_another_role_is_recreated(cluster, namespace, tmp_path):
    """The Role of a RoleBinding can't be changed, as after an upgrade that gave it another name."""
    put(cluster, gateway_class(namespace))
    operator = OperatorProcess(cluster, tmp_path, class_name=namespace).start()
    harness = OperatorHarness(cluster, operator, namespace)
    harness.gateway()
    operator.stop()
    found = harness.get("RoleBinding")
    harness.delete("RoleBinding", "gw-vgw")
    metadata = {key: found["metadata"][key] for key in ("name", "labels", "annotations", "ownerReferences")}
    other = {**found, "metadata": metadata, "roleRef": {**found["roleRef"], "name": "another"}}
    harness.cluster.apply(harness.path("RoleBinding", "gw-vgw"), other, manager=GATEWAY_MANAGER)
    operator.start()
    try:
        harness.wait_for(lambda: (harness.find("RoleBinding") or other)["roleRef"] == found["roleRef"], "the right one")
    finally:
        operator.stop()


# -- objects of others ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Service", "ConfigMap"])
def test_foreign_object_of_the_same_name_is_never_changed(harness, kind):
    name = "gw-vgw" if kind == "Service" else "gw-vcl"
    theirs = service(harness.namespace, name)
    if kind == "ConfigMap":
        theirs = {**theirs, "kind": kind, "data": {"theirs": "1"}}
        del theirs["spec"]
    harness.put(theirs)
    untouched = harness.get(kind, name)
    harness.gateway()
    reported = harness.until_condition("Gateway", "gw", "Programmed", "Invalid")
    assert f"{kind} {harness.namespace}/{name} exists and is not managed by Varnish Gateway" in reported["message"]
    assert "remove it, or give the Gateway another name" in reported["message"]
    harness.until_event("NotOurs")
    assert harness.get(kind, name) == untouched
    harness.put(gateway(harness.namespace, "gw", "another-class"))
    harness.wait_for(lambda: harness.find("Deployment") is None, "no Deployment")
    harness.operator.wait_idle()
    assert harness.get(kind, name) == untouched
    harness.gateway()
    harness.until_condition("Gateway", "gw", "Programmed", "Invalid")
    harness.delete(kind, name)
    harness.until_condition("Gateway", "gw", "Programmed", "AddressNotAssigned")
    assert harness.get(kind, name)["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "varnish-gateway"


# -- what the API server refuses -----------------------------------------------------------------


def test_parameters_rejected_by_the_api_server_are_reported_and_change_nothing(harness):
    harness.gateway()
    before = harness.get("Deployment")
    harness.configure(**BAD_TOLERATION)
    reported = harness.until_condition("Gateway", "gw", "Programmed", "Invalid")
    assert "spec.template.spec.tolerations[0].operator" in reported["message"]
    assert "Maybe" in harness.until_event("ApplyRefused")["message"]
    harness.put(service(harness.namespace, "tea"), route(harness.namespace, "tea", "gw"))
    harness.wait_for(lambda: harness.routes() == {"tea"}, "a route flows all the same")
    assert harness.get("Deployment") == before
    harness.configure(tolerations=[{"key": "a", "operator": "Exists"}])
    harness.until_condition("Gateway", "gw", "Programmed", "AddressNotAssigned")
    assert harness.get("Deployment")["spec"]["template"]["spec"]["tolerations"] == [{"key": "a", "operator": "Exists"}]


def test_fault_clears_when_the_rejected_object_is_no_longer_desired(harness):
    harness.configure(podDisruptionBudget={"maxUnavailable": "999%"})
    harness.gateway()
    reported = harness.until_condition("Gateway", "gw", "Programmed", "Invalid")
    assert "maxUnavailable" in reported["message"]
    assert harness.find("Deployment")
    harness.put(gateway_class(harness.class_name))
    harness.until_condition("Gateway", "gw", "Programmed", "AddressNotAssigned")


def test_faulty_gateway_does_not_affect_another(harness):
    harness.put(service(harness.namespace, "one-vgw"))
    harness.gateway("one")
    harness.until_condition("Gateway", "one", "Programmed", "Invalid")
    harness.gateway("two")
    assert harness.conditions("Gateway", "two")["Programmed"]["reason"] == "AddressNotAssigned"
    assert harness.get("Service", "two-vgw")["spec"]["ports"]
