"""An operator whose API server dies, forgets, takes rights away, or has no CRDs yet."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from cluster.apiserver.server import Cluster, crd_files
from support.kube.churn import Churn
from support.kube.convergence import assert_converged, assert_nothing_left_to_write
from support.kube.documents import gateway, gateway_class, listener_set, parameters, put, route, service
from support.kube.operator_process import ACCOUNT, SYSTEM, OperatorProcess
from support.kube.states import is_as_translated, versions
from support.waiting import until

CHANGES = 200
WRITES_PER_CHANGE = 6
"""A change of a Gateway with its two shards, statuses of its routes; most changes need two or three."""


@pytest.fixture(scope="module")
def shaken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Have a cluster with a second API server, for changes while the first one is down."""
    cluster = Cluster(tmp_path_factory.mktemp("shaken")).start()
    cluster.second_port = cluster.start_second_api()
    yield cluster
    cluster.stop()


@pytest.fixture
def begin(shaken: Cluster, tmp_path: Path, operators: list[OperatorProcess]) -> Callable[[str, int], Churn]:
    """Return how a test gets an operator and changes for it."""

    def begin(class_name: str, seed: int) -> Churn:
        print(f"seed {seed}")
        mixture = Churn(shaken, class_name, seed)
        mixture.begin()
        operators.append(OperatorProcess(shaken, tmp_path, class_name=class_name).start())
        return mixture

    return begin


@pytest.mark.parametrize("outage", [(17, 40, False), (90, 0, False), (140, 50, True)], ids=str)
def test_api_server_crash_during_changes_loses_none(shaken, tmp_path, operators, begin, outage):
    killed_after, missed, compacts = outage
    class_name = f"killed-{killed_after}"
    mixture = begin(class_name, seed=killed_after)
    for _ in range(killed_after):
        mixture.change()
    shaken.kill_api()
    mixture.port = shaken.second_port
    for _ in range(missed):
        mixture.change()
    if compacts:
        shaken.compact()
    shaken.start_api()
    mixture.port = shaken.port
    for _ in range(CHANGES - killed_after - missed):
        mixture.change()
    assert_converged(shaken, class_name, operators[0])
    assert sum(operators[0].writes().values()) < WRITES_PER_CHANGE * CHANGES
    operators[0].stop()
    assert_nothing_left_to_write(shaken, class_name, tmp_path, operators)


def test_api_server_restart_causes_no_write(shaken, operators, begin):
    mixture = begin("calm", seed=1)
    for _ in range(20):
        mixture.change()
    assert_converged(shaken, "calm", operators[0])
    writes, before = operators[0].writes(), versions(shaken)
    shaken.kill_api()
    shaken.compact()
    shaken.start_api()
    until(lambda: relists(operators[0]) > 0, "it has listed again", 60)
    operators[0].await_ready().at_rest()
    assert operators[0].writes() == writes
    assert versions(shaken) == before


def relists(operator: OperatorProcess) -> float:
    return sum(value for name, value in operator.metrics().items() if name.startswith("vgw_kube_relists_total"))


# -- CRDs ---------------------------------------------------------------------------------------


@pytest.fixture
def bare_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Have a cluster without any CRD."""
    cluster = Cluster(tmp_path_factory.mktemp("bare")).start(crds=False)
    yield cluster
    cluster.stop()


def test_missing_crds_are_tolerated_and_used_when_installed(bare_cluster, tmp_path, operators):
    """Those of the standard channel do; ListenerSets are a kind that older versions don't have."""
    operators.append(operator := OperatorProcess(bare_cluster, tmp_path, class_name="shop").start())
    operator.await_ready()
    later, others = split(crd_files("standard"))
    bare_cluster.install_crds(others)
    bare_cluster.create_namespace("shop")
    allowed = {"allowedListeners": {"namespaces": {"from": "Same"}}}
    put(bare_cluster, gateway_class("shop"), gateway("shop", "gw", "shop", **allowed), service("shop", "tea"))
    put(bare_cluster, route("shop", "tea", "gw"))
    until(lambda: bare_cluster.exists("/api/v1/namespaces/shop/configmaps/gw-vcl"), "the Gateway is served", 60)
    deployment = "/apis/apps/v1/namespaces/shop/deployments/gw-vgw"
    until(lambda: bare_cluster.exists(deployment), "the Gateway is served without parameters", 60)

    bare_cluster.install_crds(later)
    put(bare_cluster, parameters("shop", replicas=3), gateway_class("shop", parameters="shop"))
    until(lambda: bare_cluster.request("GET", deployment)["spec"]["replicas"] == 3, "the parameters are used", 60)
    put(bare_cluster, listener_set("shop", "more", "gw"))
    path = "/apis/gateway.networking.k8s.io/v1/namespaces/shop/gateways/gw"
    until(lambda: bare_cluster.request("GET", path)["status"].get("attachedListenerSets") == 1, "it is attached", 60)
    operator.await_ready().wait_idle().stop()


def split(paths: Iterable[Path]) -> tuple[list[Path], list[Path]]:
    """Return the CRDs that can be done without, and the others."""
    paths = list(paths)
    spared = [path for path in paths if path.stem.endswith(("gatewayclassparameters", "listenersets"))]
    return spared, [path for path in paths if path not in spared]


# -- rights -------------------------------------------------------------------------------------

ROLE = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{ACCOUNT}"


def test_revoked_permission_is_reported_and_recovers_when_granted(cluster, namespace, tmp_path, operators):
    put(cluster, gateway_class(namespace), gateway(namespace, "gw", namespace), service(namespace, "tea"))
    operators.append(operator := OperatorProcess(cluster, tmp_path, class_name=namespace).start())
    operator.at_rest()
    rules = cluster.request("GET", ROLE)["rules"]
    cluster.merge(ROLE, {"rules": [without_patch(rule) for rule in rules]})
    try:
        until(lambda: is_refused(cluster, namespace), "the API server knows the new rules")
        put(cluster, route(namespace, "tea", "gw"))
        refused = 'vgw_operator_job_failures_total{error="Forbidden"}'
        until(lambda: operator.metrics()["vgw_operator_gateways_at_fault"] == 1, "it says so")
        assert operator.metrics()[refused] >= 2
        assert "cannot patch resource" in operator.log.read_text()
    finally:
        cluster.merge(ROLE, {"rules": rules})
    until(lambda: is_as_translated(cluster, namespace), "what was refused is written", 60)
    until(lambda: operator.metrics()["vgw_operator_gateways_at_fault"] == 0, "the Gateway is well", 30)


def without_patch(rule: dict) -> dict:
    return {**rule, "verbs": [verb for verb in rule["verbs"] if verb != "patch"] or ["list"]}


def is_refused(cluster: Cluster, namespace: str) -> bool:
    """Whether the operator's account may not write ConfigMaps any more."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{SYSTEM}:{ACCOUNT}",
            "resourceAttributes": {"namespace": namespace, "verb": "patch", "resource": "configmaps"},
        },
    }
    answer = cluster.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return not answer["status"]["allowed"]
