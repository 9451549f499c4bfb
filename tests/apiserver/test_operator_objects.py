"""What the operator makes of a Gateway."""

import pytest

from support.kube.documents import gateway, route, service
from support.kube.operator_harness import GATEWAY_OBJECTS

INFRASTRUCTURE = {"labels": {"team": "tea"}, "annotations": {"example.com/cost": "42"}}


def owned_names(harness) -> set[tuple[str, str]]:
    return {(one["kind"], one["metadata"]["name"]) for one in harness.owned()}


def test_each_controller_owns_its_own_keys_of_the_config_map(harness):
    harness.put(service(harness.namespace, "tea"), route(harness.namespace, "tea", "gw"))
    harness.gateway()
    harness.wait_for(lambda: harness.routes() == {"tea"}, "the route")
    fields = harness.get("ConfigMap", "gw-vcl")["metadata"]["managedFields"]
    owned = {entry["manager"]: set(entry["fieldsV1"].get("f:data", {})) for entry in fields}
    assert owned == {"varnish-gateway": {"f:main.vcl"}, "varnish-gateway-routes": {"f:routing.json"}}
    assert {entry["operation"] for entry in fields} == {"Apply"}


def test_a_gateway_has_one_object_of_each_kind(harness):
    harness.gateway()
    assert owned_names(harness) == GATEWAY_OBJECTS


def test_every_object_has_owner_references_and_labels(harness):
    made = harness.gateway()
    owner = {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "Gateway",
        "name": "gw",
        "uid": made["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    for one in harness.owned():
        assert one["metadata"]["ownerReferences"] == [owner], one["kind"]
        assert one["metadata"]["labels"] == {
            "app.kubernetes.io/name": "varnish-gateway",
            "app.kubernetes.io/managed-by": "varnish-gateway",
            "gateway.networking.k8s.io/gateway-name": "gw",
            "gateway.networking.k8s.io/gateway-class-name": harness.class_name,
            "gateway.varnish-software.com/gateway-namespace": harness.namespace,
        }, one["kind"]
        assert one["metadata"]["annotations"]["gateway.varnish-software.com/gateway"] == "gw"


def test_infrastructure_labels_and_annotations_are_on_everything_also_when_they_change(harness):
    harness.put(*(route(harness.namespace, f"r{number}", "gw") for number in range(65)))  # more than one shard
    harness.gateway(infrastructure=INFRASTRUCTURE)
    harness.wait_for(lambda: harness.find("ConfigMap", "gw-vcl-1"), "a second shard")
    harness.operator.wait_idle()
    assert infrastructure_metadata(harness) == {("tea", "42")}
    harness.gateway(infrastructure={"labels": {"team": "milk"}, "annotations": {"example.com/cost": "7"}})
    assert infrastructure_metadata(harness) == {("milk", "7")}
    harness.gateway()
    assert infrastructure_metadata(harness) == {(None, None)}


def infrastructure_metadata(harness) -> set[tuple[str | None, str | None]]:
    """Return the infrastructure label and annotation of all objects, and of the pods to come."""
    template = harness.get("Deployment")["spec"]["template"]
    return {
        (one["metadata"]["labels"].get("team"), one["metadata"]["annotations"].get("example.com/cost"))
        for one in (*harness.owned(), template)
    }


def test_disruption_budget_follows_the_parameters(harness):
    harness.configure(podDisruptionBudget={"maxUnavailable": 1})
    harness.gateway()
    assert harness.get("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    harness.configure(podDisruptionBudget={"minAvailable": 2})
    spec = harness.wait_for(
        lambda: "minAvailable" in (one := harness.get("PodDisruptionBudget")["spec"]) and one, "another one"
    )
    assert "maxUnavailable" not in spec
    harness.configure()
    harness.wait_for(lambda: harness.find("PodDisruptionBudget") is None, "no budget")


def test_autoscaler_follows_the_parameters_and_owns_replicas(harness):
    harness.configure(autoscaling={"minReplicas": 2, "maxReplicas": 5})
    harness.gateway()
    assert harness.get("HorizontalPodAutoscaler")["spec"]["maxReplicas"] == 5
    harness.change("Deployment", "gw-vgw", {"spec": {"replicas": 4}}, subresource="scale", who="hpa")
    harness.gateway(ports=(80, 81))
    found = harness.get("Deployment")
    assert found["spec"]["replicas"] == 4
    assert "FieldConflict" not in harness.events()
    assert len(found["spec"]["template"]["spec"]["containers"][0]["ports"]) == 3
    harness.configure()
    harness.wait_for(lambda: harness.find("HorizontalPodAutoscaler") is None, "no autoscaler")
    harness.wait_for(lambda: harness.get("Deployment")["spec"]["replicas"] == 1, "as many as without an autoscaler")


def test_new_autoscaler_starts_from_the_current_replicas(harness):
    """A field without an owner would fall back to 1."""
    harness.configure(replicas=5)
    harness.gateway()
    harness.configure(autoscaling={"minReplicas": 2, "maxReplicas": 9})
    harness.wait_for(lambda: harness.find("HorizontalPodAutoscaler"), "an autoscaler")
    harness.gateway(ports=(80, 81))
    assert harness.get("Deployment")["spec"]["replicas"] == 5
    harness.change("Deployment", "gw-vgw", {"spec": {"replicas": 7}}, subresource="scale", who="hpa")
    harness.gateway(ports=(80, 81, 82))
    assert harness.get("Deployment")["spec"]["replicas"] == 7
    assert "FieldConflict" not in harness.events()


def test_replicas_follow_the_parameters(harness):
    harness.configure(replicas=3)
    harness.gateway()
    assert harness.get("Deployment")["spec"]["replicas"] == 3
    harness.configure(replicas=2)
    harness.wait_for(lambda: harness.get("Deployment")["spec"]["replicas"] == 2, "2 replicas")


@pytest.mark.parametrize("name", ["a" * 253, "9." + "b" * 200, "a.b.c"])
def test_any_name_of_a_gateway_gives_valid_objects(harness, name):
    harness.gateway(name)
    assert "Invalid" not in {condition["reason"] for condition in harness.conditions("Gateway", name).values()}
    assert {kind for kind, _ in owned_names(harness)} == {
        *("ConfigMap", "Deployment", "Role", "RoleBinding", "Secret", "Service", "ServiceAccount")
    }
    account = harness.owned()[-1]["metadata"]["name"]
    assert harness.get("Deployment", account)["spec"]["template"]["spec"]["serviceAccountName"] == account


def test_names_that_are_alike_are_kept_apart(harness):
    """Dots become dashes in the names of Services: the other Gateway must not be taken for this one."""
    for name in ("a.b", "a-b", "x" * 80 + "1", "x" * 80 + "2"):
        harness.gateway(name)
    for kind in ("Deployment", "Service", "Role", "RoleBinding", "ServiceAccount", "ConfigMap", "Secret"):
        assert len(harness.names(kind)) == 4, kind


def test_change_of_one_gateway_writes_nothing_for_another(harness):
    harness.put(service(harness.namespace, "tea"), service(harness.namespace, "milk"))
    harness.put(route(harness.namespace, "tea", "one"), route(harness.namespace, "milk", "two"))
    harness.gateway("one")
    harness.gateway("two", ports=(8000,))
    harness.wait_for(lambda: (harness.routes("one"), harness.routes("two")) == ({"tea"}, {"milk"}), "a route each")
    before = [
        one["metadata"]["resourceVersion"] for one in harness.owned() if one["metadata"]["name"].startswith("two")
    ]
    harness.gateway("one", ports=(81,))
    after = [one["metadata"]["resourceVersion"] for one in harness.owned() if one["metadata"]["name"].startswith("two")]
    assert before == after
    assert [port["port"] for port in harness.get("Service", "two-vgw")["spec"]["ports"]] == [8000]


def test_service_fields_set_by_the_cloud_are_kept(harness):
    harness.gateway()
    mark = {"cloud.example.com/id": "lb-1"}
    finalizers = ["service.kubernetes.io/load-balancer-cleanup"]
    harness.change("Service", "gw-vgw", {"metadata": {"annotations": mark, "finalizers": finalizers}}, who="cloud")
    harness.gateway(ports=(80, 81))
    found = harness.get("Service")
    assert found["metadata"]["annotations"].items() >= mark.items()
    assert found["metadata"]["finalizers"] == finalizers
    assert [port["port"] for port in found["spec"]["ports"]] == [80, 81]
    harness.change("Service", "gw-vgw", {"metadata": {"finalizers": []}}, who="cloud")


def test_service_follows_the_class_parameters(harness):
    harness.configure(service={"annotations": {"a": "1", "b": "1"}, "externalTrafficPolicy": "Local"})
    harness.gateway()
    found = harness.get("Service")
    assert found["spec"]["type"] == "LoadBalancer"
    assert found["spec"]["externalTrafficPolicy"] == "Local"
    harness.configure(service={"type": "ClusterIP", "annotations": {"a": "2"}})
    found = harness.wait_for(
        lambda: (one := harness.get("Service"))["spec"]["type"] == "ClusterIP" and one, "a ClusterIP"
    )
    assert {key: value for key, value in found["metadata"]["annotations"].items() if key in "ab"} == {"a": "2"}
    assert "nodePort" not in found["spec"]["ports"][0]
    condition = harness.until_condition("Gateway", "gw", "Programmed", "Pending")
    assert "no pod" in condition["message"]  # it has an address now: the cluster's
    assert harness.get("Gateway")["status"]["addresses"] == [{"type": "IPAddress", "value": found["spec"]["clusterIP"]}]


def test_a_gateway_without_a_listener_that_can_be_served_gets_no_service_but_keeps_its_own(harness):
    tls = {"name": "tls", "port": 443, "protocol": "TLS", "tls": {"mode": "Passthrough"}}
    harness.gateway(listeners=[tls])
    assert harness.find("Service") is None
    harness.gateway()
    before = harness.get("Service")
    assert before["spec"]["ports"][0]["port"] == 80
    harness.gateway(listeners=[tls])
    assert harness.get("Service") == before, "its address would be lost"


def test_gateway_of_an_unknown_class_gets_no_objects(harness):
    """A Gateway of no class of ours gets nothing."""
    harness.put(gateway(harness.namespace, "other", "no-such-class"))
    harness.gateway()
    assert {one["metadata"]["labels"]["gateway.networking.k8s.io/gateway-name"] for one in harness.owned()} == {"gw"}
