"""An operator that starts, or takes over, on a cluster in the desired state writes nothing at all."""

from pathlib import Path

import yaml

from cluster.apiserver.server import Cluster
from support.kube.bulk import restore, twins
from support.kube.churn import user_vcl
from support.kube.documents import gateway, gateway_class, listener_set, parameters, path_of, put, route, service
from support.kube.operator_process import OperatorProcess
from support.kube.states import is_as_translated, stored, translated, versions
from support.waiting import until

EVERYTHING = Path(__file__).parents[1] / "golden" / "manifests-everything" / "in.yaml"
ROUTES = 5000
LEASE = {"LEASE_SECONDS": "60"}


def everything(namespace: str) -> dict:
    """Return parameters with every field, and with amounts as people write them."""
    documents = yaml.safe_load_all(EVERYTHING.read_text())
    spec = next(document["spec"] for document in documents if document["kind"] == "GatewayClassParameters")
    spec["userVCLConfigMapRef"]["namespace"] = namespace
    spec["resources"] = {"requests": {"cpu": "0.5", "memory": "1024Mi"}, "limits": {"cpu": 2, "memory": "2e9"}}
    return parameters(namespace, **spec)


def populate(cluster: Cluster, namespace: str) -> None:
    """Make Gateways with and without parameters of their own, and routes that are right and wrong."""
    infrastructure = {"labels": {"team": "shop"}, "annotations": {"example.com/x": "y"}}
    asked = [{"type": "IPAddress", "value": "192.0.2.10"}]
    put(
        cluster,
        user_vcl(namespace),
        # The class first: the operator looks again after a minute at parameters without one.
        gateway_class(namespace, parameters=namespace),
        everything(namespace),
        service(namespace, "tea"),
        gateway(namespace, "gw", namespace, ports=(80, 8080), infrastructure=infrastructure),
        gateway(namespace, "asks", namespace, addresses=asked),
        gateway(namespace, "of.a-long-name-with-a-dot" * 8, namespace),
        route(namespace, "tea", "gw"),
        route(namespace, "nowhere", "gw"),
        route(namespace, "elsewhere", "gw", backend={"name": "tea", "namespace": "default"}),
        route(namespace, "other", "foreign"),
    )


def test_restart_in_the_desired_state_writes_nothing(cluster, namespace, tmp_path, operators):
    operators.append(OperatorProcess(cluster, tmp_path, class_name=namespace).start())
    populate(cluster, namespace)
    until(lambda: is_as_translated(cluster, namespace), "everything is written")
    operators[0].at_rest().stop()
    before = versions(cluster)
    operators.append(OperatorProcess(cluster, tmp_path, class_name=namespace, name="second").start())
    assert operators[1].at_rest().writes() == {}
    assert versions(cluster) == before
    cluster.request("DELETE", path_of(gateway_class(namespace)))
    cluster.request("DELETE", path_of(parameters(namespace)))


def test_stale_status_and_objects_are_corrected_at_start(cluster, namespace, tmp_path, operators):
    operators.append(OperatorProcess(cluster, tmp_path, class_name=namespace).start())
    put(cluster, gateway_class(namespace), service(namespace, "tea"), service(namespace, "milk"))
    put(cluster, gateway(namespace, "gw", namespace), gateway(namespace, "old", namespace))
    put(cluster, listener_set(namespace, "more", "gw"), orphan := listener_set(namespace, "orphan", "old"))
    put(cluster, gateway(namespace, "moved", namespace), route(namespace, "tea", "gw"), route(namespace, "milk", "gw"))
    until(lambda: is_as_translated(cluster, namespace), "everything is written")
    operators[0].at_rest().stop()
    left = route(namespace, "tea", "gw")
    left["spec"]["parentRefs"] = [{"name": "of-nobody"}]
    moved = gateway(namespace, "moved", "foreign")
    put(cluster, left, moved)
    cluster.request("DELETE", path_of(route(namespace, "milk", "gw")))
    cluster.request("DELETE", path_of(gateway(namespace, "old", namespace)))
    operators.append(OperatorProcess(cluster, tmp_path, class_name=namespace, name="second").start())
    operators[1].at_rest()
    assert stored(cluster, namespace) == translated(cluster, namespace)
    assert not cluster.request("GET", path_of(moved))["status"].get("listeners")
    assert {one["reason"] for one in cluster.request("GET", path_of(orphan))["status"]["conditions"]} == {"Pending"}
    ours = {name for kind, space, name in versions(cluster) if space == namespace and kind != "Gateway"}
    assert not [name for name in ours if name.startswith("moved")]  # what "old" left is for the garbage collector
    cluster.request("DELETE", path_of(gateway_class(namespace)))


def test_restart_and_handover_with_5000_routes_write_nothing(own_cluster, tmp_path, operators):
    own_cluster.create_namespace("shop")
    put(own_cluster, gateway_class("shop"), gateway("shop", "gw", "shop"), service("shop", "tea"))
    put(own_cluster, route("shop", "tea", "gw"))
    operators.append(OperatorProcess(own_cluster, tmp_path, class_name="shop").start())
    operators[0].at_rest()
    first = own_cluster.request("GET", path_of(route("shop", "tea", "gw")))
    restore(own_cluster, "httproutes", twins(first, (f"tea-{number}" for number in range(1, ROUTES))))
    path = path_of(gateway("shop", "gw", "shop"))
    until(lambda: attached(own_cluster, path) == ROUTES, "every route is attached", 60)
    operators[0].at_rest().stop()
    before, expected = versions(own_cluster), translated(own_cluster, "shop")
    assert stored(own_cluster, "shop") == expected

    started = [OperatorProcess(own_cluster, tmp_path, class_name="shop", name=name, environment=LEASE) for name in "ab"]
    operators.extend(started)
    leader, standby = started[0].start().at_rest(), started[1].launch().await_ready()
    assert leader.writes() == {}
    leader.stop()
    assert standby.wait_idle().at_rest().writes() == {}
    assert versions(own_cluster) == before


def attached(cluster: Cluster, path: str) -> int:
    return int(cluster.request("GET", path)["status"]["listeners"][0]["attachedRoutes"])
