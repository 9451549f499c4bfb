"""What the operator makes of a Gateway."""

import pytest

from support.kube.operators import gateway, route, service

INFRASTRUCTURE = {"labels": {"team": "tea"}, "annotations": {"example.com/cost": "42"}}


def owned_names(lab) -> set[tuple[str, str]]:
    return {(one["kind"], one["metadata"]["name"]) for one in lab.owned()}


def test_each_controller_owns_its_own_keys_of_the_config_map(lab):
    lab.put(service(lab.namespace, "tea"), route(lab.namespace, "tea", "gw"))
    lab.gateway()
    lab.until(lambda: lab.routes() == {"tea"}, "the route")
    fields = lab.get("ConfigMap", "gw-vcl")["metadata"]["managedFields"]
    owned = {entry["manager"]: set(entry["fieldsV1"].get("f:data", {})) for entry in fields}
    assert owned == {"varnish-gateway": {"f:main.vcl"}, "varnish-gateway-routes": {"f:routing.json"}}
    assert {entry["operation"] for entry in fields} == {"Apply"}


def test_a_gateway_has_one_object_of_each_kind(lab):
    lab.gateway()
    assert owned_names(lab) == {
        ("ConfigMap", "gw-vcl"),
        ("Deployment", "gw"),
        ("Role", "gw"),
        ("RoleBinding", "gw"),
        ("Secret", "gw-tls"),
        ("Service", "gw"),
        ("ServiceAccount", "gw"),
    }


def test_every_object_says_whose_it_is(lab):
    made = lab.gateway()
    owner = {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "Gateway",
        "name": "gw",
        "uid": made["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    for one in lab.owned():
        assert one["metadata"]["ownerReferences"] == [owner], one["kind"]
        assert one["metadata"]["labels"] == {
            "app.kubernetes.io/name": "varnish-gateway",
            "app.kubernetes.io/managed-by": "varnish-gateway",
            "gateway.networking.k8s.io/gateway-name": "gw",
            "gateway.networking.k8s.io/gateway-class-name": lab.class_name,
            "gateway.varnish-software.com/gateway-namespace": lab.namespace,
        }, one["kind"]
        assert one["metadata"]["annotations"]["gateway.varnish-software.com/gateway"] == "gw"


def test_infrastructure_labels_and_annotations_are_on_everything_also_when_they_change(lab):
    lab.put(*(route(lab.namespace, f"r{number}", "gw") for number in range(65)))  # more than one shard
    lab.gateway(infrastructure=INFRASTRUCTURE)
    lab.until(lambda: lab.find("ConfigMap", "gw-vcl-1"), "a second shard")
    lab.operator.settled()
    assert told(lab) == {("tea", "42")}
    lab.gateway(infrastructure={"labels": {"team": "milk"}, "annotations": {"example.com/cost": "7"}})
    assert told(lab) == {("milk", "7")}
    lab.gateway()
    assert told(lab) == {(None, None)}


def told(lab) -> set[tuple[str | None, str | None]]:
    """Return the infrastructure label and annotation of all objects, and of the pods to come."""
    template = lab.get("Deployment")["spec"]["template"]
    return {
        (one["metadata"]["labels"].get("team"), one["metadata"]["annotations"].get("example.com/cost"))
        for one in (*lab.owned(), template)
    }


def test_a_disruption_budget_comes_changes_and_goes_with_the_parameters(lab):
    lab.configure(podDisruptionBudget={"maxUnavailable": 1})
    lab.gateway()
    assert lab.get("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    lab.configure(podDisruptionBudget={"minAvailable": 2})
    spec = lab.until(lambda: "minAvailable" in (one := lab.get("PodDisruptionBudget")["spec"]) and one, "another one")
    assert "maxUnavailable" not in spec
    lab.configure()
    lab.until(lambda: lab.find("PodDisruptionBudget") is None, "no budget")


def test_an_autoscaler_comes_and_goes_and_decides_about_replicas(lab):
    lab.configure(autoscaling={"minReplicas": 2, "maxReplicas": 5})
    lab.gateway()
    assert lab.get("HorizontalPodAutoscaler")["spec"]["maxReplicas"] == 5
    lab.change("Deployment", "gw", {"spec": {"replicas": 4}}, subresource="scale", who="hpa")
    lab.gateway(ports=(80, 81))
    found = lab.get("Deployment")
    assert found["spec"]["replicas"] == 4
    assert "FieldConflict" not in lab.events()
    assert len(found["spec"]["template"]["spec"]["containers"][0]["ports"]) == 3
    lab.configure()
    lab.until(lambda: lab.find("HorizontalPodAutoscaler") is None, "no autoscaler")
    lab.until(lambda: lab.get("Deployment")["spec"]["replicas"] == 1, "as many as without an autoscaler")


def test_an_autoscaler_begins_with_the_pods_that_there_are(lab):
    """A field that nobody holds any more would fall back to 1."""
    lab.configure(replicas=5)
    lab.gateway()
    lab.configure(autoscaling={"minReplicas": 2, "maxReplicas": 9})
    lab.until(lambda: lab.find("HorizontalPodAutoscaler"), "an autoscaler")
    lab.gateway(ports=(80, 81))
    assert lab.get("Deployment")["spec"]["replicas"] == 5
    lab.change("Deployment", "gw", {"spec": {"replicas": 7}}, subresource="scale", who="hpa")
    lab.gateway(ports=(80, 81, 82))
    assert lab.get("Deployment")["spec"]["replicas"] == 7
    assert "FieldConflict" not in lab.events()


def test_replicas_follow_the_parameters(lab):
    lab.configure(replicas=3)
    lab.gateway()
    assert lab.get("Deployment")["spec"]["replicas"] == 3
    lab.configure(replicas=2)
    lab.until(lambda: lab.get("Deployment")["spec"]["replicas"] == 2, "2 replicas")


@pytest.mark.parametrize("name", ["a" * 253, "9." + "b" * 200, "a.b.c"])
def test_any_name_of_a_gateway_gives_valid_objects(lab, name):
    lab.gateway(name)
    assert "Invalid" not in {condition["reason"] for condition in lab.conditions("Gateway", name).values()}
    assert {kind for kind, _ in owned_names(lab)} == {
        *("ConfigMap", "Deployment", "Role", "RoleBinding", "Secret", "Service", "ServiceAccount")
    }
    account = lab.owned()[-1]["metadata"]["name"]
    assert lab.get("Deployment", account)["spec"]["template"]["spec"]["serviceAccountName"] == account


def test_names_that_are_alike_are_kept_apart(lab):
    """Dots become dashes in the names of Services: the other Gateway must not be taken for this one."""
    for name in ("a.b", "a-b", "x" * 80 + "1", "x" * 80 + "2"):
        lab.gateway(name)
    for kind in ("Deployment", "Service", "Role", "RoleBinding", "ServiceAccount", "ConfigMap", "Secret"):
        assert len(lab.names(kind)) == 4, kind


def test_gateways_do_not_disturb_each_other(lab):
    lab.put(service(lab.namespace, "tea"), service(lab.namespace, "milk"))
    lab.put(route(lab.namespace, "tea", "one"), route(lab.namespace, "milk", "two"))
    lab.gateway("one")
    lab.gateway("two", ports=(8000,))
    lab.until(lambda: (lab.routes("one"), lab.routes("two")) == ({"tea"}, {"milk"}), "a route each")
    before = [one["metadata"]["resourceVersion"] for one in lab.owned() if one["metadata"]["name"].startswith("two")]
    lab.gateway("one", ports=(81,))
    after = [one["metadata"]["resourceVersion"] for one in lab.owned() if one["metadata"]["name"].startswith("two")]
    assert before == after
    assert [port["port"] for port in lab.get("Service", "two")["spec"]["ports"]] == [8000]


def test_what_a_cloud_adds_to_the_service_stays(lab):
    lab.gateway()
    mark = {"cloud.example.com/id": "lb-1"}
    finalizers = ["service.kubernetes.io/load-balancer-cleanup"]
    lab.change("Service", "gw", {"metadata": {"annotations": mark, "finalizers": finalizers}}, who="cloud")
    lab.gateway(ports=(80, 81))
    found = lab.get("Service")
    assert found["metadata"]["annotations"].items() >= mark.items()
    assert found["metadata"]["finalizers"] == finalizers
    assert [port["port"] for port in found["spec"]["ports"]] == [80, 81]
    lab.change("Service", "gw", {"metadata": {"finalizers": []}}, who="cloud")


def test_the_service_is_as_the_class_says_and_changes_with_it(lab):
    lab.configure(service={"annotations": {"a": "1", "b": "1"}, "externalTrafficPolicy": "Local"})
    lab.gateway()
    found = lab.get("Service")
    assert found["spec"]["type"] == "LoadBalancer"
    assert found["spec"]["externalTrafficPolicy"] == "Local"
    lab.configure(service={"type": "ClusterIP", "annotations": {"a": "2"}})
    found = lab.until(lambda: (one := lab.get("Service"))["spec"]["type"] == "ClusterIP" and one, "a ClusterIP")
    assert {key: value for key, value in found["metadata"]["annotations"].items() if key in "ab"} == {"a": "2"}
    assert "nodePort" not in found["spec"]["ports"][0]
    condition = lab.until_condition("Gateway", "gw", "Programmed", "Pending")
    assert "no pod" in condition["message"]  # it has an address now: the cluster's
    assert lab.get("Gateway")["status"]["addresses"] == [{"type": "IPAddress", "value": found["spec"]["clusterIP"]}]


def test_a_gateway_without_a_listener_that_can_be_served_gets_no_service_but_keeps_its_own(lab):
    tls = {"name": "tls", "port": 443, "protocol": "TLS", "tls": {"mode": "Passthrough"}}
    lab.gateway(listeners=[tls])
    assert lab.find("Service") is None
    lab.gateway()
    before = lab.get("Service")
    assert before["spec"]["ports"][0]["port"] == 80
    lab.gateway(listeners=[tls])
    assert lab.get("Service") == before, "its address would be lost"


def test_an_operator_has_only_what_it_was_told_to_have(lab):
    """A Gateway of no class of ours gets nothing."""
    lab.put(gateway(lab.namespace, "other", "no-such-class"))
    lab.gateway()
    assert {one["metadata"]["labels"]["gateway.networking.k8s.io/gateway-name"] for one in lab.owned()} == {"gw"}
