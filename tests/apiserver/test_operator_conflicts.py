"""Others at the same objects, and objects that the API server refuses."""

import pytest

from support.kube.operatorlab import Lab
from support.kube.operators import Operator, gateway, gateway_class, put, route, service
from varnish_gateway.emit.names import GATEWAY_MANAGER, INFRA_HASH

BAD_TOLERATION = {"tolerations": [{"key": "a", "operator": "Maybe"}]}


def applies(lab: Lab, kind: str) -> int:
    """Return how often the operator has applied objects of a kind."""
    return int(lab.operator.settled().writes().get(f"{kind} apply", 0))


def replicas(lab: Lab) -> int:
    return int(lab.get("Deployment")["spec"]["replicas"])


# -- fields of others ----------------------------------------------------------------------------


def test_a_field_that_somebody_took_is_left_to_them(lab):
    lab.gateway()
    lab.cluster.kubectl("scale", "deployment/gw", "--replicas=3", "-n", lab.namespace)
    told = lab.until_event("FieldConflict")
    assert ".spec.replicas is left to kubectl" in told["message"]
    assert replicas(lab) == 3
    before = applies(lab, "Deployment")
    lab.gateway(ports=(80, 81))
    assert len(lab.get("Deployment")["spec"]["template"]["spec"]["containers"][0]["ports"]) == 3
    assert replicas(lab) == 3
    assert applies(lab, "Deployment") - before <= 2  # once with the field, for they may have let go of it
    assert lab.conditions("Gateway")["Programmed"]["reason"] == "AddressNotAssigned"


def test_a_field_that_somebody_lets_go_of_is_ours_again(lab):
    lab.gateway()
    theirs = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "gw"}}
    lab.cluster.apply(lab.path("Deployment", "gw"), {**theirs, "spec": {"replicas": 3}}, manager="gitops")
    lab.until_event("FieldConflict")
    lab.operator.settled()
    lab.cluster.apply(lab.path("Deployment", "gw"), theirs, manager="gitops")
    lab.until(lambda: replicas(lab) == 1, "as many pods as without them")


def test_who_applies_over_ours_by_force_is_not_fought(lab):
    """Another manager that applies the same field again and again: each time costs a few writes at most."""
    lab.gateway()
    image = {"containers": [{"name": "gateway", "image": "example.com/mine:1"}]}
    theirs = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "gw"},
        "spec": {"template": {"spec": image}},
    }
    before = applies(lab, "Deployment")
    lab.cluster.apply(lab.path("Deployment", "gw"), theirs, manager="gitops")
    lab.until_event("FieldConflict")
    assert applies(lab, "Deployment") - before <= 2
    image["containers"][0]["image"] = "example.com/mine:2"
    lab.cluster.apply(lab.path("Deployment", "gw"), theirs, manager="gitops")
    lab.change("Deployment", "gw", {"metadata": {"labels": {"team": "milk"}}})
    lab.gateway(infrastructure={"annotations": {"a": "b"}})
    found = lab.get("Deployment")
    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "example.com/mine:2"
    assert found["spec"]["template"]["metadata"]["annotations"]["a"] == "b"
    assert applies(lab, "Deployment") - before <= 6


@pytest.mark.parametrize("key", ["main.vcl", "routing.json"])
def test_an_edited_config_map_is_reported_and_not_fought_over(lab, key):
    lab.gateway()
    before = applies(lab, "ConfigMap")
    edited = "vcl 4.1; backend default none;" if key == "main.vcl" else "{}"
    lab.change("ConfigMap", "gw-vcl", {"data": {key: edited}})
    told = lab.until_condition("Gateway", "gw", "Programmed", "Invalid")
    assert f".data.{key}" in told["message"]
    assert "somebody" in told["message"]
    lab.until_event("FieldConflict")
    assert lab.get("ConfigMap", "gw-vcl")["data"][key] == edited
    assert applies(lab, "ConfigMap") - before <= 10  # with a growing delay between them
    lab.delete("ConfigMap", "gw-vcl")
    lab.until_condition("Gateway", "gw", "Programmed", "AddressNotAssigned")
    assert lab.get("ConfigMap", "gw-vcl")["data"][key] != edited


# -- what is taken away --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("ConfigMap", "gw-vcl"),
        ("Deployment", "gw"),
        ("Role", "gw"),
        ("RoleBinding", "gw"),
        ("Secret", "gw-tls"),
        ("Service", "gw"),
        ("ServiceAccount", "gw"),
    ],
)
def test_what_somebody_deletes_comes_back(lab, kind, name):
    was = lab.gateway() and lab.get(kind, name)
    lab.delete(kind, name)
    lab.until(lambda: (lab.find(kind, name) or was)["metadata"]["uid"] != was["metadata"]["uid"], "another one")
    lab.operator.settled()
    found = lab.get(kind, name)
    assert found["metadata"]["labels"] == was["metadata"]["labels"]
    assert found.get("data") == was.get("data")


def test_what_somebody_removes_comes_back_once(lab):
    lab.gateway()
    writes = {kind: applies(lab, kind) for kind in ("ConfigMap", "Deployment")}
    lab.change("ConfigMap", "gw-vcl", {"data": {"routing.json": None}})
    lab.change("Deployment", "gw", {"spec": {"template": {"metadata": {"annotations": {INFRA_HASH: None}}}}})
    lab.until(lambda: "routing.json" in lab.get("ConfigMap", "gw-vcl")["data"], "routing.json")
    annotations = lambda: lab.get("Deployment")["spec"]["template"]["metadata"]["annotations"]  # noqa: E731
    lab.until(lambda: INFRA_HASH in annotations(), "the hash")
    assert applies(lab, "ConfigMap") - writes["ConfigMap"] == 1
    assert applies(lab, "Deployment") - writes["Deployment"] == 1


@pytest.mark.parametrize(("kind", "name"), [("ConfigMap", "gw-vcl"), ("Deployment", "gw")])
def test_an_object_without_its_label_is_found_again(lab, kind, name):
    lab.gateway()
    uid = lab.get(kind, name)["metadata"]["uid"]
    label = "app.kubernetes.io/managed-by"
    lab.change(kind, name, {"metadata": {"labels": {label: None}}})
    lab.until(lambda: label in lab.get(kind, name)["metadata"]["labels"], "the label")
    assert lab.get(kind, name)["metadata"]["uid"] == uid


def test_a_binding_of_another_role_is_made_anew(cluster, namespace, tmp_path):
    """The Role of a RoleBinding can't be changed, as after an upgrade that gave it another name."""
    put(cluster, gateway_class(namespace))
    operator = Operator(cluster, tmp_path, class_name=namespace).start()
    lab = Lab(cluster, operator, namespace)
    lab.gateway()
    operator.stop()
    found = lab.get("RoleBinding")
    lab.delete("RoleBinding", "gw")
    metadata = {key: found["metadata"][key] for key in ("name", "labels", "annotations", "ownerReferences")}
    other = {**found, "metadata": metadata, "roleRef": {**found["roleRef"], "name": "another"}}
    lab.cluster.apply(lab.path("RoleBinding", "gw"), other, manager=GATEWAY_MANAGER)
    operator.start()
    try:
        lab.until(lambda: (lab.find("RoleBinding") or other)["roleRef"] == found["roleRef"], "the right one")
    finally:
        operator.stop()


# -- objects of others ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Service", "ConfigMap"])
def test_an_object_that_is_not_ours_is_never_touched(lab, kind):
    name = "gw" if kind == "Service" else "gw-vcl"
    theirs = service(lab.namespace, name)
    if kind == "ConfigMap":
        theirs = {**theirs, "kind": kind, "data": {"theirs": "1"}}
        del theirs["spec"]
    lab.put(theirs)
    untouched = lab.get(kind, name)
    lab.gateway()
    told = lab.until_condition("Gateway", "gw", "Programmed", "Invalid")
    assert f"{kind} {lab.namespace}/{name} exists and is not managed by Varnish Gateway" in told["message"]
    assert "remove it, or give the Gateway another name" in told["message"]
    lab.until_event("NotOurs")
    assert lab.get(kind, name) == untouched
    lab.put(gateway(lab.namespace, "gw", "another-class"))
    lab.until(lambda: lab.find("Deployment") is None, "no Deployment")
    lab.operator.settled()
    assert lab.get(kind, name) == untouched
    lab.gateway()
    lab.until_condition("Gateway", "gw", "Programmed", "Invalid")
    lab.delete(kind, name)
    lab.until_condition("Gateway", "gw", "Programmed", "AddressNotAssigned")
    assert lab.get(kind, name)["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "varnish-gateway"


# -- what the API server refuses -----------------------------------------------------------------


def test_parameters_that_the_api_server_refuses_are_told_and_disturb_nothing(lab):
    lab.gateway()
    before = lab.get("Deployment")
    lab.configure(**BAD_TOLERATION)
    told = lab.until_condition("Gateway", "gw", "Programmed", "Invalid")
    assert "spec.template.spec.tolerations[0].operator" in told["message"]
    assert "Maybe" in lab.until_event("ApplyRefused")["message"]
    lab.put(service(lab.namespace, "tea"), route(lab.namespace, "tea", "gw"))
    lab.until(lambda: lab.routes() == {"tea"}, "a route flows all the same")
    assert lab.get("Deployment") == before
    lab.configure(tolerations=[{"key": "a", "operator": "Exists"}])
    lab.until_condition("Gateway", "gw", "Programmed", "AddressNotAssigned")
    assert lab.get("Deployment")["spec"]["template"]["spec"]["tolerations"] == [{"key": "a", "operator": "Exists"}]


def test_what_is_not_asked_for_any_more_is_no_fault_any_more(lab):
    lab.configure(podDisruptionBudget={"maxUnavailable": "999%"})
    lab.gateway()
    told = lab.until_condition("Gateway", "gw", "Programmed", "Invalid")
    assert "maxUnavailable" in told["message"]
    assert lab.find("Deployment")
    lab.put(gateway_class(lab.class_name))
    lab.until_condition("Gateway", "gw", "Programmed", "AddressNotAssigned")


def test_a_gateway_at_fault_does_not_disturb_another(lab):
    lab.put(service(lab.namespace, "one"))
    lab.gateway("one")
    lab.until_condition("Gateway", "one", "Programmed", "Invalid")
    lab.gateway("two")
    assert lab.conditions("Gateway", "two")["Programmed"]["reason"] == "AddressNotAssigned"
    assert lab.get("Service", "two")["spec"]["ports"]
