"""What is left when a Gateway, its class or its name goes."""

import os
import signal
from collections.abc import Iterator

import pytest

from cluster.apiserver.server import Cluster
from support.kube.documents import GATEWAY_API, gateway, gateway_class, put, reference_grant, route, service
from support.kube.operator_harness import OperatorHarness
from support.kube.operator_process import OperatorProcess
from varnish_gateway.kinds import Use, used_for

FINALIZER = "gateway-exists-finalizer.gateway.networking.k8s.io"


@pytest.fixture(scope="module")
def collecting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorProcess]:
    """Have an operator beside a garbage collector."""
    cluster = Cluster(tmp_path_factory.mktemp("collecting")).start()
    cluster.start_controllers()
    put(cluster, gateway_class("varnish"))
    operator = OperatorProcess(cluster, tmp_path_factory.mktemp("operator"), class_name="varnish").start()
    yield operator
    operator.stop()
    cluster.stop()


@pytest.fixture
def own_harness(collecting: OperatorProcess, request: pytest.FixtureRequest) -> OperatorHarness:
    """Have a Gateway with routes to its own and to another namespace."""
    cluster, name = collecting.cluster, f"place-{abs(hash(request.node.name))}"
    harness = OperatorHarness(cluster, collecting, name)
    for namespace in (name, f"{name}-backends"):
        cluster.create_namespace(namespace)
        harness.put(service(namespace, "tea"))
    harness.put(
        reference_grant(f"{name}-backends", name), route(name, "tea", "gw", backend={"namespace": f"{name}-backends"})
    )
    harness.gateway()
    harness.wait_for(lambda: harness.names("RoleBinding", f"{name}-backends"), "a RoleBinding where the backend is")
    harness.operator.wait_idle()
    return harness


def leftovers(harness: OperatorHarness) -> set[tuple[str, str]]:
    """Return what there is of the operator's, here and where the backend is."""
    namespaces = (harness.namespace, f"{harness.namespace}-backends")
    return {
        (kind.name, name)
        for kind in used_for(Use.OWNED)
        for namespace in namespaces
        for name in harness.names(kind.name, namespace)
    }


# -- a Gateway -----------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan"])
def test_deleted_gateway_leaves_no_objects(own_harness, policy):
    own_harness.delete("Gateway", "gw", policy=policy)
    own_harness.wait_for(lambda: not leftovers(own_harness), "nothing is left")
    own_harness.wait_for(lambda: own_harness.find("Gateway") is None, "no Gateway")
    own_harness.wait_for(lambda: not own_harness.parents("tea"), "no word about it on the route")


def test_recreated_gateway_deletes_orphaned_objects(harness):
    """There is no garbage collector here, or it has not come yet."""
    harness.put(service(harness.namespace, "tea"), route(harness.namespace, "tea", "gw"))
    harness.gateway()
    harness.wait_for(lambda: len(harness.names("RoleBinding")) == 2, "one of them is for endpoints")
    harness.delete("Gateway", "gw")
    harness.wait_for(lambda: not harness.parents("tea"), "it is gone")
    harness.delete("HTTPRoute", "tea")
    harness.operator.wait_idle()
    harness.gateway()
    harness.wait_for(lambda: harness.names("RoleBinding") == {"gw-vgw"}, "none is for endpoints")


def test_objects_are_kept_while_the_gateway_kind_is_not_served(own_harness):
    """A chart with older CRDs, say: the kind seems not to be installed, though its objects are stored."""
    crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gateways.gateway.networking.k8s.io"
    versions = own_harness.cluster.request("GET", crd)["spec"]["versions"]
    hidden = [{**version, "served": version["name"] != "v1"} for version in versions]
    before = uids(own_harness)
    own_harness.cluster.merge(crd, {"spec": {"versions": hidden}})
    try:
        own_harness.wait_for(lambda: "Gateway" in own_harness.operator.readiness(), "Gateways are not installed")
        own_harness.operator.wait_idle()
        assert uids(own_harness) == before
    finally:
        own_harness.cluster.merge(crd, {"spec": {"versions": versions}})
    own_harness.wait_for(lambda: own_harness.operator.readiness() == "ok\n", "they are again")
    own_harness.operator.wait_idle()
    assert uids(own_harness) == before


def uids(harness: OperatorHarness) -> dict[tuple[str, str], str]:
    return {(one["kind"], one["metadata"]["name"]): one["metadata"]["uid"] for one in harness.owned()}


def test_gateway_held_by_a_finalizer_loses_its_pods(harness):
    harness.gateway()
    harness.change("Gateway", "gw", {"metadata": {"finalizers": ["example.com/wait"]}})
    harness.delete("Gateway", "gw")
    harness.wait_for(lambda: not harness.owned(), "nothing is left")
    assert harness.get("Gateway")
    harness.change("Gateway", "gw", {"metadata": {"finalizers": []}})


def test_gateway_deleted_while_no_operator_ran_is_cleaned_up(own_harness):
    own_harness.operator.stop()
    own_harness.delete("Gateway", "gw")
    assert own_harness.names("RoleBinding", f"{own_harness.namespace}-backends")
    own_harness.operator.start()
    own_harness.wait_for(lambda: not leftovers(own_harness), "nothing is left")
    own_harness.wait_for(lambda: not own_harness.parents("tea"), "no word about it on the route")


def test_recreated_gateway_owns_new_objects(own_harness):
    old = own_harness.get("Gateway")["metadata"]["uid"]
    own_harness.delete("Gateway", "gw")
    new = own_harness.gateway()["metadata"]["uid"]
    assert new != old
    expected = {"ConfigMap", "Deployment", "Role", "RoleBinding", "Secret", "Service", "ServiceAccount"}
    own_harness.wait_for(
        lambda: {one["kind"] for one in own_harness.owned()} == expected and owners(own_harness) == {new},
        "objects of the new one",
    )
    own_harness.wait_for(lambda: own_harness.routes() == {"tea"}, "its routes")
    own_harness.wait_for(
        lambda: own_harness.names("RoleBinding", f"{own_harness.namespace}-backends"), "its RoleBinding elsewhere"
    )


def owners(harness: OperatorHarness) -> set[str]:
    found = [one for one in harness.owned() if "deletionTimestamp" not in one["metadata"]]
    return {ref["uid"] for one in found for ref in one["metadata"].get("ownerReferences", ({"uid": "nobody"},))}


def test_gateway_replaced_during_an_outage_owns_new_objects(harness):
    """The operator hears of the end of one and of the next one at the same moment."""
    harness.gateway()
    os.kill(harness.operator.pid, signal.SIGSTOP)
    try:
        harness.delete("Gateway", "gw")
        harness.put(gateway(harness.namespace, "gw", harness.class_name))
    finally:
        os.kill(harness.operator.pid, signal.SIGCONT)
    uid = harness.get("Gateway")["metadata"]["uid"]
    harness.wait_for(
        lambda: len({one["kind"] for one in harness.owned()}) == 7 and owners(harness) == {uid},
        "objects of the new one",
    )
    harness.until_observed()


def test_gateway_recreated_many_times_ends_with_one_set_of_objects(harness):
    """Without a garbage collector what the last one left is in the way of the next one."""
    for _ in range(5):
        harness.put(gateway(harness.namespace, "gw", harness.class_name))
        harness.delete("Gateway", "gw")
    uid = harness.gateway()["metadata"]["uid"]
    harness.wait_for(
        lambda: len({one["kind"] for one in harness.owned()}) == 7 and owners(harness) == {uid}, "one set of objects"
    )


# -- its class -----------------------------------------------------------------------------------


def test_gateway_leaving_the_class_loses_its_objects(harness):
    harness.put(service(harness.namespace, "tea"), route(harness.namespace, "tea", "gw"))
    harness.gateway()
    harness.wait_for(lambda: harness.parents("tea"), "an entry of the route")
    theirs = {"type": "example.com/Theirs", "status": "True", "reason": "Theirs", "message": ""}
    path = f"{harness.path('Gateway', 'gw')}/status"
    status = {"conditions": [{**theirs, "lastTransitionTime": "2001-02-03T04:05:06Z"}]}
    document = {"apiVersion": GATEWAY_API, "kind": "Gateway", "metadata": {"name": "gw"}, "status": status}
    harness.cluster.apply(path, document, manager="they")
    harness.put(gateway(harness.namespace, "gw", "another-class"))
    harness.wait_for(lambda: not harness.owned(), "nothing is left")
    harness.wait_for(lambda: "Programmed" not in harness.conditions("Gateway"), "no word of ours")
    found = harness.get("Gateway")["status"]
    assert [condition["type"] for condition in found["conditions"]] == ["example.com/Theirs"]
    assert not found.get("listeners")
    harness.wait_for(lambda: not harness.parents("tea"), "no entry of ours on the route")
    harness.gateway()
    assert harness.get("Deployment")


def test_a_gateway_may_move_from_one_operator_to_another(harness, cluster, namespace, tmp_path):
    """Two classes of ours with an operator each: what one lets go the other one has."""
    put(cluster, gateway_class(namespace), service(namespace, "tea"), route(namespace, "tea", "gw"))
    harness.gateway()
    second = OperatorHarness(cluster, OperatorProcess(cluster, tmp_path, class_name=namespace).start(), namespace)
    try:
        for turn in (second, harness, second):
            turn.gateway()
            expect_all(turn)
            for one in (harness, second):
                one.operator.wait_idle()
            expect_all(turn)
            assert harness.conditions("Gateway")["Programmed"]["reason"] == "AddressNotAssigned"
            assert len(harness.parents("tea")) == 1
    finally:
        second.operator.stop()


def expect_all(harness: OperatorHarness) -> None:
    """Wait until the Gateway has all that it needs, of this class alone."""
    label = "gateway.networking.k8s.io/gateway-class-name"
    expected = [harness.class_name] * 8
    harness.wait_for(
        lambda: [one["metadata"]["labels"][label] for one in harness.owned()] == expected, "objects of one class"
    )
    harness.wait_for(lambda: harness.routes() == {"tea"}, "its route")


def test_class_finalizer_stays_while_gateways_use_it(cluster, namespace, tmp_path):
    put(cluster, gateway_class(namespace), gateway(namespace, "gw", namespace), gateway(namespace, "gw2", namespace))
    operator = OperatorProcess(cluster, tmp_path, class_name=namespace).start()
    harness = OperatorHarness(cluster, operator, namespace)
    try:
        harness.wait_for(lambda: finalizers(harness) == [FINALIZER], "the finalizer")
        harness.delete("Gateway", "gw2")
        harness.wait_for(lambda: operator.metrics()["vgw_operator_gateways"] == 1, "one Gateway less")
        harness.delete("GatewayClass", namespace)
        harness.gateway(ports=(81,))
        assert harness.get("Service")["spec"]["ports"][0]["port"] == 81
        assert finalizers(harness) == [FINALIZER]
        harness.delete("Gateway", "gw")
        harness.wait_for(
            lambda: harness.find("GatewayClass", namespace) is None, "the class goes with its last Gateway"
        )
    finally:
        operator.stop()


def test_class_finalizer_is_removed_with_the_last_gateway(harness):
    harness.change("GatewayClass", harness.class_name, {"metadata": {"finalizers": ["example.com/theirs"]}})
    harness.gateway()
    harness.wait_for(lambda: sorted(finalizers(harness)) == ["example.com/theirs", FINALIZER], "both")
    harness.delete("Gateway", "gw")
    harness.wait_for(lambda: finalizers(harness) == ["example.com/theirs"], "theirs alone")
    harness.change("GatewayClass", harness.class_name, {"metadata": {"finalizers": []}})


def finalizers(harness: OperatorHarness) -> list[str]:
    return list(harness.get("GatewayClass", harness.class_name)["metadata"].get("finalizers", ()))
