"""When pods are replaced, and when not."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.apiserver.server import Cluster
from support.kube.operatorlab import Lab
from support.kube.operators import Operator, gateway, gateway_class, put, route, service

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
def test_what_varnishd_reads_at_its_start_changes_the_hash(lab, before, after):
    lab.configure(**before)
    lab.gateway()
    was = lab.infra_hash()
    lab.configure(**after)
    lab.until(lambda: lab.infra_hash() != was, "another hash")
    lab.configure(**before)
    lab.until(lambda: lab.infra_hash() == was, "the hash as before")


def test_listener_sockets_change_the_hash_and_listener_names_do_not(lab):
    lab.gateway()
    was = lab.infra_hash()
    lab.gateway(ports=(80, 81))
    assert lab.infra_hash() != was
    shared = [{"name": name, "port": 80, "protocol": "HTTP", "hostname": f"{name}.example.com"} for name in ("a", "b")]
    lab.gateway(listeners=shared)
    assert lab.infra_hash() == was


@pytest.mark.parametrize(
    ("name", "value"), [("GATEWAY_IMAGE", "example.com/gateway:2"), ("IMAGE_PULL_SECRETS", "registry")]
)
def test_the_operators_own_settings_change_the_hash(cluster, namespace, tmp_path, name, value):
    put(cluster, gateway_class(namespace), gateway(namespace, "gw", namespace))
    operator = Operator(cluster, tmp_path, class_name=namespace).start()
    lab = Lab(cluster, operator, namespace)
    lab.until_observed()
    was = lab.infra_hash()
    operator.stop()
    operator = Operator(cluster, tmp_path, class_name=namespace, environment={name: value}).start()
    try:
        lab.until(lambda: lab.infra_hash() != was, "another hash")
    finally:
        operator.stop()


def test_other_parameters_leave_the_hash_alone(lab):
    lab.gateway()
    was = lab.infra_hash()
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
    lab.configure(**everything_else)
    lab.until(lambda: lab.get("Deployment")["spec"]["template"]["spec"].get("tolerations"), "the tolerations")
    lab.operator.settled()
    assert lab.get("Deployment")["spec"]["replicas"] == 2
    assert lab.infra_hash() == was


def test_routes_services_and_user_vcl_never_touch_the_deployment(lab):
    ns = lab.namespace
    lab.put(config_map(ns, says("one")))
    lab.configure(**user_vcl_ref(ns))
    lab.gateway()
    before = lab.get("Deployment")["metadata"]
    lab.put(service(ns, "tea"), route(ns, "tea", "gw"), config_map(ns, says("two")))
    lab.until(lambda: lab.routes() == {"tea"}, "the route")
    lab.until(lambda: says("two") in lab.get("ConfigMap", "gw-vcl")["data"]["main.vcl"], "the VCL")
    lab.delete("HTTPRoute", "tea")
    lab.until(lambda: lab.routes() == set(), "no route")
    lab.operator.settled()
    after = lab.get("Deployment")["metadata"]
    assert (after["generation"], after["resourceVersion"]) == (before["generation"], before["resourceVersion"])


def test_a_user_vcl_edit_changes_main_vcl_and_leaves_routing_alone(lab):
    ns = lab.namespace
    lab.put(config_map(ns, says("one")))
    lab.configure(**user_vcl_ref(ns))
    lab.gateway()
    before = lab.get("ConfigMap", "gw-vcl")
    assert says("one") in before["data"]["main.vcl"]
    lab.put(config_map(ns, says("two")))
    lab.until(lambda: says("two") in lab.get("ConfigMap", "gw-vcl")["data"]["main.vcl"], "the new VCL")
    after = lab.get("ConfigMap", "gw-vcl")
    assert written(after, "varnish-gateway-routes") == written(before, "varnish-gateway-routes")
    assert after["data"]["routing.json"] == before["data"]["routing.json"]


def written(document: dict, manager: str) -> dict:
    """Return what the API server says that a manager wrote, and when."""
    return next(entry for entry in document["metadata"]["managedFields"] if entry["manager"] == manager)


# -- with kube-controller-manager ---------------------------------------------------------------


@pytest.fixture
def rolling(own_cluster: Cluster, tmp_path: Path) -> Iterator[Lab]:
    own_cluster.start_controllers()
    own_cluster.create_namespace("rolling")
    put(own_cluster, gateway_class("varnish"))
    operator = Operator(own_cluster, tmp_path, class_name="varnish").start()
    yield Lab(own_cluster, operator, "rolling")
    operator.stop()


def replica_sets(lab: Lab) -> set[str]:
    path = f"/apis/apps/v1/namespaces/{lab.namespace}/replicasets"
    return {one["metadata"]["name"] for one in lab.cluster.request("GET", path)["items"]}


def observed(lab: Lab) -> bool:
    """Whether the controllers have dealt with the Deployment as it is now."""
    found = lab.get("Deployment")
    return bool(found.get("status", {}).get("observedGeneration") == found["metadata"]["generation"])


def test_parameters_roll_pods_and_user_vcl_does_not(rolling):
    lab = rolling
    lab.put(config_map(lab.namespace, says("one")))
    lab.configure(**user_vcl_ref(lab.namespace))
    lab.gateway()
    first = lab.until(lambda: replica_sets(lab), "a ReplicaSet")
    lab.until(lambda: observed(lab), "the rollout")
    lab.put(config_map(lab.namespace, says("two")))
    lab.until(lambda: says("two") in lab.get("ConfigMap", "gw-vcl")["data"]["main.vcl"], "the new VCL")
    lab.operator.settled()
    assert observed(lab)
    assert replica_sets(lab) == first
    lab.configure(**user_vcl_ref(lab.namespace), varnishdExtraArgs=["-p", "thread_pools=1"])
    lab.until(lambda: len(replica_sets(lab)) == 2, "a second ReplicaSet")
    # Nothing runs here, so no new pod gets ready: the old ones have to stay for as long.
    sizes = lab.cluster.request("GET", f"/apis/apps/v1/namespaces/{lab.namespace}/replicasets")["items"]
    assert [one["spec"]["replicas"] for one in sizes if one["metadata"]["name"] in first] == [1]
