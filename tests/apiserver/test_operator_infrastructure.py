"""When pods are replaced, and when not."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.apiserver.server import Cluster
from support.kube.documents import gateway, gateway_class, put, route, service
from support.kube.operator_harness import OperatorHarness
from support.kube.operator_process import OperatorProcess

VOLUME = {"name": "extra", "emptyDir": {}}
MOUNT = {"name": "extra", "mountPath": "/extra"}


def config_map(namespace: str, vcl: str) -> dict:
    metadata = {"name": "user-vcl", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"user.vcl": vcl}}


def user_vcl_ref(namespace: str) -> dict:
    return {"userVCLConfigMapRef": {"name": "user-vcl", "namespace": namespace}}


def says(word: str) -> str:
    return f'sub vcl_deliver {{ set resp.http.says = "{word}"; }}'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"image": "example.com/gateway:2"}),
        ({}, {"varnishdExtraArgs": ["-p", "thread_pools=1"]}),
        ({"varnishdExtraArgs": ["-p", "a=1"]}, {"varnishdExtraArgs": ["-p", "a=2"]}),
        ({}, {"logging": {"mode": "varnishncsa"}}),
        ({"logging": {"mode": "varnishncsa"}}, {"logging": {"mode": "varnishncsa", "format": "%h"}}),
        ({"logging": {"mode": "varnishlog"}}, {"logging": {"mode": "varnishlog", "extraArgs": ["-g", "raw"]}}),
        ({"logging": {"mode": "varnishlog"}}, {"logging": {"mode": "varnishlog", "image": "example.com/log:1"}}),
        ({}, {"extraVolumes": [VOLUME]}),
        ({"extraVolumes": [VOLUME]}, {"extraVolumes": [VOLUME], "extraVolumeMounts": [MOUNT]}),
        ({}, {"extraInitContainers": [{"name": "first", "image": "example.com/first:1"}]}),
    ],
    ids=lambda spec: "+".join(spec) or "nothing",
)
def test_parameters_read_at_varnishd_start_change_the_infra_hash(harness, before, after):
    harness.configure(**before)
    harness.gateway()
    was = harness.infra_hash()
    harness.configure(**after)
    harness.wait_for(lambda: harness.infra_hash() != was, "another hash")
    harness.configure(**before)
    harness.wait_for(lambda: harness.infra_hash() == was, "the hash as before")


def test_listener_sockets_change_the_hash_and_listener_names_do_not(harness):
    harness.gateway()
    was = harness.infra_hash()
    harness.gateway(ports=(80, 81))
    assert harness.infra_hash() != was
    shared = [{"name": name, "port": 80, "protocol": "HTTP", "hostname": f"{name}.example.com"} for name in ("a", "b")]
    harness.gateway(listeners=shared)
    assert harness.infra_hash() == was


@pytest.mark.parametrize(
    ("name", "value"), [("GATEWAY_IMAGE", "example.com/gateway:2"), ("IMAGE_PULL_SECRETS", "registry")]
)
def test_the_operators_own_settings_change_the_hash(cluster, namespace, tmp_path, name, value):
    put(cluster, gateway_class(namespace), gateway(namespace, "gw", namespace))
    operator = OperatorProcess(cluster, tmp_path, class_name=namespace).start()
    harness = OperatorHarness(cluster, operator, namespace)
    harness.until_observed()
    was = harness.infra_hash()
    operator.stop()
    operator = OperatorProcess(cluster, tmp_path, class_name=namespace, environment={name: value}).start()
    try:
        harness.wait_for(lambda: harness.infra_hash() != was, "another hash")
    finally:
        operator.stop()


def test_other_parameters_leave_the_hash_alone(harness):
    harness.gateway()
    was = harness.infra_hash()
    everything_else = {
        "replicas": 2,
        "resources": {"requests": {"cpu": "1"}},
        "tolerations": [{"operator": "Exists"}],
        "nodeSelector": {"disk": "ssd"},
        "podAnnotations": {"a": "b"},
        "affinity": {"nodeAffinity": {}},
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
        ],
        "podDisruptionBudget": {"maxUnavailable": 1},
        "service": {"type": "NodePort", "annotations": {"a": "b"}},
    }
    harness.configure(**everything_else)
    harness.wait_for(
        lambda: harness.get("Deployment")["spec"]["template"]["spec"].get("tolerations"), "the tolerations"
    )
    harness.operator.wait_idle()
    assert harness.get("Deployment")["spec"]["replicas"] == 2
    assert harness.infra_hash() == was


def test_routes_services_and_user_vcl_never_touch_the_deployment(harness):
    ns = harness.namespace
    harness.put(config_map(ns, says("one")))
    harness.configure(**user_vcl_ref(ns))
    harness.gateway()
    before = harness.get("Deployment")["metadata"]
    harness.put(service(ns, "tea"), route(ns, "tea", "gw"), config_map(ns, says("two")))
    harness.wait_for(lambda: harness.routes() == {"tea"}, "the route")
    harness.wait_for(lambda: says("two") in harness.get("ConfigMap", "gw-vcl")["data"]["main.vcl"], "the VCL")
    harness.delete("HTTPRoute", "tea")
    harness.wait_for(lambda: harness.routes() == set(), "no route")
    harness.operator.wait_idle()
    after = harness.get("Deployment")["metadata"]
    assert (after["generation"], after["resourceVersion"]) == (before["generation"], before["resourceVersion"])


def test_a_user_vcl_edit_changes_main_vcl_and_leaves_routing_alone(harness):
    ns = harness.namespace
    harness.put(config_map(ns, says("one")))
    harness.configure(**user_vcl_ref(ns))
    harness.gateway()
    before = harness.get("ConfigMap", "gw-vcl")
    assert says("one") in before["data"]["main.vcl"]
    harness.put(config_map(ns, says("two")))
    harness.wait_for(lambda: says("two") in harness.get("ConfigMap", "gw-vcl")["data"]["main.vcl"], "the new VCL")
    after = harness.get("ConfigMap", "gw-vcl")
    assert written(after, "varnish-gateway-routes") == written(before, "varnish-gateway-routes")
    assert after["data"]["routing.json"] == before["data"]["routing.json"]


def written(document: dict, manager: str) -> dict:
    """Return what the API server says that a manager wrote, and when."""
    return next(entry for entry in document["metadata"]["managedFields"] if entry["manager"] == manager)


# -- with kube-controller-manager ---------------------------------------------------------------


@pytest.fixture
def rolling(own_cluster: Cluster, tmp_path: Path) -> Iterator[OperatorHarness]:
    own_cluster.start_controllers()
    own_cluster.create_namespace("rolling")
    put(own_cluster, gateway_class("varnish"))
    operator = OperatorProcess(own_cluster, tmp_path, class_name="varnish").start()
    yield OperatorHarness(own_cluster, operator, "rolling")
    operator.stop()


def replica_sets(harness: OperatorHarness) -> set[str]:
    path = f"/apis/apps/v1/namespaces/{harness.namespace}/replicasets"
    return {one["metadata"]["name"] for one in harness.cluster.request("GET", path)["items"]}


def observed(harness: OperatorHarness) -> bool:
    """Whether the controllers have dealt with the Deployment as it is now."""
    found = harness.get("Deployment")
    return bool(found.get("status", {}).get("observedGeneration") == found["metadata"]["generation"])


def test_parameters_roll_pods_and_user_vcl_does_not(rolling):
    harness = rolling
    harness.put(config_map(harness.namespace, says("one")))
    harness.configure(**user_vcl_ref(harness.namespace))
    harness.gateway()
    first = harness.wait_for(lambda: replica_sets(harness), "a ReplicaSet")
    harness.wait_for(lambda: observed(harness), "the rollout")
    harness.put(config_map(harness.namespace, says("two")))
    harness.wait_for(lambda: says("two") in harness.get("ConfigMap", "gw-vcl")["data"]["main.vcl"], "the new VCL")
    harness.operator.wait_idle()
    assert observed(harness)
    assert replica_sets(harness) == first
    harness.configure(**user_vcl_ref(harness.namespace), varnishdExtraArgs=["-p", "thread_pools=1"])
    harness.wait_for(lambda: len(replica_sets(harness)) == 2, "a second ReplicaSet")
    # Nothing runs here, so no new pod gets ready: the old ones have to stay for as long.
    sizes = harness.cluster.request("GET", f"/apis/apps/v1/namespaces/{harness.namespace}/replicasets")["items"]
    assert [one["spec"]["replicas"] for one in sizes if one["metadata"]["name"] in first] == [1]
