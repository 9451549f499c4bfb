"""Invalidations in a cluster: from an object to the caches of all pods, and back into its status."""

import base64

from support.kube.documents import Document, gateway, gateway_class, invalidation, put, route, service
from support.kube.gateway_status import give_address
from support.kube.operator_harness import OperatorHarness
from support.kube.operator_process import OperatorProcess
from support.kube.pods.gateway_pod import GatewayPod
from support.kube.pods.stub_pod import stub_pod


def status(harness: OperatorHarness, name: str, namespace: str | None = None) -> Document:
    return (harness.find("VarnishCacheInvalidation", name, namespace) or {}).get("status", {})


def ended(harness: OperatorHarness, name: str, namespace: str | None = None) -> Document:
    """Wait until the phase has ended; return the status."""

    def has_ended() -> Document | None:
        found = status(harness, name, namespace)
        return found if found.get("phase") in ("Complete", "Failed") else None

    return dict(harness.wait_for(has_ended, f"the end of {name}"))


def condition(found: Document, type_: str) -> tuple[str, str]:
    (one,) = (one for one in found["conditions"] if one["type"] == type_)
    return one["reason"], one["message"]


def reasons(found: Document) -> dict[str, str]:
    return {one["podName"]: one["reason"] for one in found.get("podResults", ())}


def token(harness: OperatorHarness, gateway: str = "gw") -> str:
    """Return the operator's token for a Gateway, once it is stored."""
    secret = f"{gateway}-vgw-tls"
    data = harness.wait_for(lambda: (harness.find("Secret", secret) or {}).get("data"), "a Secret with a token")
    return base64.b64decode(data["operator-token"]).decode()


def test_invalidation_reaches_a_real_chaperone_and_its_status_has_the_counts(harness):
    namespace = harness.namespace
    harness.gateway()
    harness.put(service(namespace, "web"), route(namespace, "r1", "gw"))
    give_address(harness)
    with GatewayPod(harness).running() as pod:
        spec = {"type": "Ban", "hostname": "a.example", "paths": ["^/v1/.*"], "tags": ["a"], "routes": ["r1"]}
        harness.put(invalidation(namespace, "first", **spec))
        found = ended(harness, "first")
        assert (found["phase"], found["objects"], found["observedGeneration"]) == ("Complete", 0, 1)
        (result,) = found["podResults"]
        assert (result["podName"], result["success"], result["reason"]) == (pod.name, True, "Confirmed")
        assert [one["path"] for one in result["pathResults"]] == ["^/v1/.*", "tags", f"route {namespace}/r1"]

        harness.put(invalidation(namespace, "wrong", type="Ban", hostname="a.example", paths=["("]))
        found = ended(harness, "wrong")
        assert (found["phase"], reasons(found)) == ("Failed", {pod.name: "Rejected"})
        reason, message = condition(found, "Accepted")
        assert (reason, "targets[0].matching.pattern" in message) == ("Invalid", True)
        assert "targets[0]" in harness.until_event("Invalid", "wrong")["message"]


def test_pod_that_dies_before_it_confirms_is_accounted_for(harness):
    harness.gateway()
    with stub_pod(harness, {"objects": [3]}) as (alive, seen):
        with stub_pod(harness, None) as (dying, asked):
            harness.put(invalidation(harness.namespace, "one", everything=True))
            harness.wait_for(lambda: asked, "the pod is asked")
            harness.wait_for(lambda: status(harness, "one").get("phase") == "InProgress", "one pod has confirmed")
        found = ended(harness, "one")
        assert (found["phase"], found["objects"]) == ("Complete", 3)
        assert reasons(found) == {alive.name: "Confirmed", dying.name: "Gone"}
        assert len(seen) == 1, "a pod that has confirmed is not asked again"
        assert seen[0]["authorization"] == f"Bearer {token(harness)}"


def test_other_namespace_may_name_only_what_its_own_routes_have_stored(harness, cluster):
    namespace, other = harness.namespace, f"{harness.namespace}-other"
    cluster.create_namespace(other)
    try:
        listener = {"name": "http", "port": 80, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "All"}}}
        harness.gateway(listeners=[listener])
        attached = route(other, "mine", "gw")
        attached["spec"]["parentRefs"][0]["namespace"] = namespace
        harness.put(service(other, "web"), attached, route(namespace, "theirs", "gw"))
        harness.wait_for(lambda: harness.routes() == {"mine", "theirs"}, "both routes")
        with stub_pod(harness, {"objects": [1]}) as (_, seen):
            ref = {"name": "gw", "namespace": namespace}
            spec = {"gatewayRef": ref, "everything": True, "routes": [f"{namespace}/theirs"]}
            harness.put(invalidation(other, "one", **spec))
            found = ended(harness, "one", other)
            assert found["phase"] == "Complete"
            assert seen[0]["targets"] == [{"everything": True}]
            assert seen[0]["namespaces"] == [other]
            reason, message = condition(found, "Restricted")
            assert (reason, f"left out: {namespace}/theirs" in message) == ("OtherNamespace", True)
    finally:
        cluster.clear_namespace(other)


def test_finished_invalidation_is_deleted_after_its_ttl(harness):
    harness.gateway()
    harness.put(invalidation(harness.namespace, "brief", everything=True, ttl="1s"))
    harness.put(invalidation(harness.namespace, "kept", everything=True))
    harness.wait_for(lambda: harness.find("VarnishCacheInvalidation", "brief") is None, "it is deleted")
    assert ended(harness, "kept")["phase"] == "Complete"


def test_token_and_results_outlive_the_operator(cluster, namespace, tmp_path, operators):
    put(cluster, gateway_class(namespace))
    operators.append(OperatorProcess(cluster, tmp_path, class_name=namespace).start())
    harness = OperatorHarness(cluster, operators[0], namespace)
    harness.gateway("gw")
    put(cluster, gateway(namespace, "second", namespace))
    before = token(harness)
    assert token(harness, "second") != before
    with stub_pod(harness, {"objects": [2]}) as (_, seen):
        harness.put(invalidation(namespace, "done", everything=True))
        assert ended(harness, "done")["objects"] == 2
        operators[0].stop()
        operators.append(OperatorProcess(cluster, tmp_path, class_name=namespace, name="next").start())
        harness = OperatorHarness(cluster, operators[1], namespace)
        harness.put(invalidation(namespace, "later", everything=True))
        assert ended(harness, "later")["phase"] == "Complete"
        assert [one["authorization"] for one in seen] == [f"Bearer {before}"] * 2, "what is done is not sent again"
        assert token(harness) == before
