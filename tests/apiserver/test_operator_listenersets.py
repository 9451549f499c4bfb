"""What the operator makes of ListenerSets."""

import socket

from loopback import free_port
from support.kube.documents import gateway, gateway_class, listener_set, put, route, service
from support.kube.gateway_status import give_address
from support.kube.gateway_tls import (
    certificate_names,
    certify,
    gateway_secret,
    https,
    listener,
    until_listener,
    until_names,
)
from support.kube.operator_harness import OperatorHarness
from support.kube.operator_process import OperatorProcess
from support.kube.pods.gateway_pod import GatewayPod

OPEN = {"allowedListeners": {"namespaces": {"from": "Same"}}}


def listeners(harness: OperatorHarness, name: str = "gw") -> list[str]:
    return [listener.name for listener in harness.routing(name).listeners]


def attached(harness: OperatorHarness) -> int:
    return int(harness.get("Gateway")["status"].get("attachedListenerSets", 0))


def listener_reasons(harness: OperatorHarness, name: str) -> set[str]:
    """Return the reasons in the conditions of a ListenerSet's listeners."""
    found = harness.get("ListenerSet", name)["status"]["listeners"]
    return {condition["reason"] for one in found for condition in one["conditions"]}


def of_set(namespace: str, name: str, set_name: str) -> dict:
    """Return a route with a ListenerSet as its parent."""
    made = route(namespace, name, "gw")
    made["spec"]["parentRefs"] = [{"kind": "ListenerSet", "name": set_name}]
    del made["spec"]["hostnames"]
    return made


def test_accepted_listener_set_adds_listeners_and_reports_status(harness):
    harness.gateway(**OPEN)
    harness.put(listener_set(harness.namespace, "shop", "gw"), service(harness.namespace, "tea"))
    harness.put(of_set(harness.namespace, "tea", "shop"))
    harness.wait_for(lambda: listeners(harness) == ["http-80", f"{harness.namespace}/shop/http"], "two listeners")
    harness.until_condition("ListenerSet", "shop", "Accepted", "Accepted")
    harness.wait_for(lambda: attached(harness) == 1, "it is counted")
    harness.wait_for(
        lambda: harness.get("ListenerSet", "shop")["status"]["listeners"][0]["attachedRoutes"] == 1, "a route"
    )
    (entry,) = harness.parents("tea")
    assert entry["parentRef"] == {"group": "gateway.networking.k8s.io", "kind": "ListenerSet", "name": "shop"}
    assert {one["type"]: one["status"] for one in entry["conditions"]} == {"Accepted": "True", "ResolvedRefs": "True"}
    assert harness.get("Gateway")["status"]["listeners"][0]["attachedRoutes"] == 0
    reported = harness.get("ListenerSet", "shop")["status"]
    parts = [reported, *reported["listeners"]]
    assert {one["observedGeneration"] for part in parts for one in part["conditions"]} == {1}

    harness.delete("ListenerSet", "shop")
    harness.wait_for(lambda: listeners(harness) == ["http-80"], "its listener goes with it")
    harness.wait_for(lambda: attached(harness) == 0, "it is not counted any more")
    harness.wait_for(lambda: not harness.parents("tea"), "the route has no status")


def test_gateway_without_allowed_listeners_rejects_the_set_until_it_allows_it(harness):
    harness.gateway()
    harness.put(listener_set(harness.namespace, "shop", "gw"))
    harness.until_condition("ListenerSet", "shop", "Accepted", "NotAllowed")
    assert harness.conditions("ListenerSet", "shop")["Programmed"]["reason"] == "NotAllowed"
    harness.until_event("NotAllowed", "shop")
    harness.gateway(**OPEN)
    harness.until_condition("ListenerSet", "shop", "Accepted", "Accepted")
    harness.gateway()
    harness.until_condition("ListenerSet", "shop", "Accepted", "NotAllowed")
    assert not harness.get("ListenerSet", "shop")["status"].get("listeners")
    assert listeners(harness) == ["http-80"]
    assert attached(harness) == 0


def test_port_of_a_listener_set_opens_in_running_pods(harness):
    harness.gateway(**OPEN)
    give_address(harness)
    with GatewayPod(harness).running():
        harness.put(listener_set(harness.namespace, "shop", "gw"))
        harness.until_condition("ListenerSet", "shop", "Programmed", "Programmed")
        template = harness.infra_hash()
        port = free_port()
        with socket.create_server(("", port)):  # the pod can't open it while the test has it
            harness.put(listener_set(harness.namespace, "shop", "gw", port=port))
            reported = harness.until_condition("ListenerSet", "shop", "Programmed", "Pending")
            assert (reported["status"], reported["observedGeneration"]) == ("False", 2)
            assert f"http-{port} is not open in the pods yet" in reported["message"]
            assert harness.conditions("Gateway", "gw")["Programmed"]["status"] == "True"
        reported = harness.until_condition("ListenerSet", "shop", "Programmed", "Programmed")
        assert (reported["status"], reported["observedGeneration"]) == ("True", 2)
        (entry,) = harness.get("ListenerSet", "shop")["status"]["listeners"]
        assert {one["type"]: one["status"] for one in entry["conditions"]}["Programmed"] == "True"
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        assert {one["port"] for one in harness.get("Service")["spec"]["ports"]} == {80, port}
        assert harness.infra_hash() == template, "the operator replaced the pods"


def test_deleted_gateway_resets_the_listener_set_status(harness):
    harness.gateway(**OPEN)
    harness.put(listener_set(harness.namespace, "shop", "gw"))
    harness.until_condition("ListenerSet", "shop", "Accepted", "Accepted")
    harness.delete("Gateway", "gw")
    harness.until_condition("ListenerSet", "shop", "Accepted", "Pending")  # as the CRD has it by default
    assert not harness.get("ListenerSet", "shop")["status"].get("listeners")


def test_older_listener_set_wins_a_hostname_conflict(harness):
    harness.gateway(**OPEN)
    harness.put(listener_set(harness.namespace, "b", "gw", hostname="shop.example.com"))
    harness.until_condition("ListenerSet", "b", "Accepted", "Accepted")
    created = harness.get("ListenerSet", "b")["metadata"]["creationTimestamp"]

    def is_younger() -> bool:
        harness.put(listener_set(harness.namespace, "a", "gw", hostname="shop.example.com"))
        if harness.get("ListenerSet", "a")["metadata"]["creationTimestamp"] > created:
            return True
        harness.delete("ListenerSet", "a")
        return False

    harness.wait_for(is_younger, "one that is younger")
    harness.until_condition("ListenerSet", "a", "Accepted", "ListenersNotValid")
    harness.delete("ListenerSet", "b")
    harness.until_condition("ListenerSet", "a", "Accepted", "Accepted")
    harness.wait_for(lambda: listeners(harness) == ["http-80", f"{harness.namespace}/a/http"], "its listener")


def test_operators_ignore_listener_sets_of_other_classes(harness, cluster, namespace, tmp_path):
    """Two classes of ours with an operator each: a route on ListenerSets of both has two entries, and keeps them."""
    put(cluster, gateway_class(namespace), service(namespace, "tea"))
    second = OperatorHarness(cluster, OperatorProcess(cluster, tmp_path, class_name=namespace).start(), namespace)
    try:
        harness.gateway(**OPEN)
        harness.put(gateway(namespace, "other", namespace, **OPEN))
        both = of_set(namespace, "tea", "ours")
        both["spec"]["parentRefs"].append({"kind": "ListenerSet", "name": "theirs"})
        harness.put(listener_set(namespace, "ours", "gw"), listener_set(namespace, "theirs", "other"), both)
        harness.wait_for(lambda: len(harness.parents("tea")) == 2, "an entry of each")
        for name in ("ours", "theirs"):
            harness.until_condition("ListenerSet", name, "Accepted", "Accepted")
        for one in (harness, second):
            one.operator.wait_idle()
        assert {one["parentRef"]["name"] for one in harness.parents("tea")} == {"ours", "theirs"}
        harness.delete("ListenerSet", "ours")
        harness.wait_for(
            lambda: [one["parentRef"]["name"] for one in harness.parents("tea")] == ["theirs"], "one entry"
        )
    finally:
        second.operator.stop()


def test_listener_set_certificates_join_those_of_the_gateway(harness):
    """Those of its own namespace, without a grant; a new one at run time."""
    certify(harness, "cert", "www.example.com")
    certify(harness, "shop", "shop.example.com")
    harness.gateway(listeners=[https("https", "cert", hostname="www.example.com")], **OPEN)
    tls = {"certificateRefs": [{"name": "shop"}]}
    harness.put(listener_set(harness.namespace, "shop", "gw", port=443, protocol="HTTPS", tls=tls))
    harness.wait_for(lambda: certificate_names(harness) == {443: [("www.example.com",), ("shop.example.com",)]}, "both")
    before = gateway_secret(harness)
    certify(harness, "shop", "rotated.example.com")
    harness.wait_for(lambda: gateway_secret(harness).keys() != before.keys(), "the new one")
    harness.delete("Secret", "shop")
    harness.wait_for(lambda: "InvalidCertificateRef" in listener_reasons(harness, "shop"), "the missing Secret")
    assert certificate_names(harness) == {443: [("www.example.com",), ("shop.example.com",)]}, "both serve"
    harness.delete("ListenerSet", "shop")
    until_names(harness, {443: [("www.example.com",)]})


def test_overlapping_hostname_sets_a_condition_while_it_lasts(harness):
    certify(harness, "cert", "www.example.com")
    harness.gateway(listeners=[https("https", "cert", hostname="*.example.com")], **OPEN)
    tls = {"certificateRefs": [{"name": "cert"}]}
    harness.put(listener_set(harness.namespace, "shop", "gw", port=443, protocol="HTTPS", tls=tls))
    until_listener(harness, "https", OverlappingTLSConfig=("True", "OverlappingHostnames"))
    harness.delete("ListenerSet", "shop")
    harness.wait_for(
        lambda: "OverlappingTLSConfig" not in listener(harness), "it is taken back, though the Gateway is as it was"
    )
    assert harness.get("Gateway")["metadata"]["generation"] == 1
