"""What the operator makes of ListenerSets."""

from apiserver.test_operator_status import give_address
from apiserver.test_operator_tls import certificate_names, certify, https, listener, sealed, until_listener
from support.kube.operatorlab import Lab
from support.kube.operators import Operator, gateway, gateway_class, listener_set, put, route, service
from support.kube.pods import Pod

OPEN = {"allowedListeners": {"namespaces": {"from": "Same"}}}


def listeners(lab: Lab, name: str = "gw") -> list[str]:
    return [listener.name for listener in lab.routing(name).listeners]


def attached(lab: Lab) -> int:
    return int(lab.get("Gateway")["status"].get("attachedListenerSets", 0))


def of_set(namespace: str, name: str, set_name: str) -> dict:
    """Return a route with a ListenerSet as its parent."""
    made = route(namespace, name, "gw")
    made["spec"]["parentRefs"] = [{"kind": "ListenerSet", "name": set_name}]
    del made["spec"]["hostnames"]
    return made


def test_its_listeners_are_the_gateways_and_its_status_says_so(lab):
    lab.gateway(**OPEN)
    lab.put(listener_set(lab.namespace, "shop", "gw"), service(lab.namespace, "tea"))
    lab.put(of_set(lab.namespace, "tea", "shop"))
    lab.until(lambda: listeners(lab) == ["http-80", f"{lab.namespace}/shop/http"], "two listeners")
    lab.until_condition("ListenerSet", "shop", "Accepted", "Accepted")
    lab.until(lambda: attached(lab) == 1, "it is counted")
    lab.until(lambda: lab.get("ListenerSet", "shop")["status"]["listeners"][0]["attachedRoutes"] == 1, "a route")
    (entry,) = lab.parents("tea")
    assert entry["parentRef"] == {"group": "gateway.networking.k8s.io", "kind": "ListenerSet", "name": "shop"}
    assert {one["type"]: one["status"] for one in entry["conditions"]} == {"Accepted": "True", "ResolvedRefs": "True"}
    assert lab.get("Gateway")["status"]["listeners"][0]["attachedRoutes"] == 0
    told = lab.get("ListenerSet", "shop")["status"]
    parts = [told, *told["listeners"]]
    assert {one["observedGeneration"] for part in parts for one in part["conditions"]} == {1}

    lab.delete("ListenerSet", "shop")
    lab.until(lambda: listeners(lab) == ["http-80"], "its listener goes with it")
    lab.until(lambda: attached(lab) == 0, "it is not counted any more")
    lab.until(lambda: not lab.parents("tea"), "nothing is said about the route")


def test_a_gateway_that_takes_none_says_so_and_can_change_its_mind(lab):
    lab.gateway()
    lab.put(listener_set(lab.namespace, "shop", "gw"))
    lab.until_condition("ListenerSet", "shop", "Accepted", "NotAllowed")
    assert lab.conditions("ListenerSet", "shop")["Programmed"]["reason"] == "NotAllowed"
    lab.until_event("NotAllowed", "shop")
    lab.gateway(**OPEN)
    lab.until_condition("ListenerSet", "shop", "Accepted", "Accepted")
    lab.gateway()
    lab.until_condition("ListenerSet", "shop", "Accepted", "NotAllowed")
    assert not lab.get("ListenerSet", "shop")["status"].get("listeners")
    assert listeners(lab) == ["http-80"]
    assert attached(lab) == 0


def test_programmed_means_that_the_pods_have_its_port_open(lab):
    lab.gateway(**OPEN)
    give_address(lab)
    with Pod(lab).running():
        lab.put(listener_set(lab.namespace, "shop", "gw"))
        lab.until_condition("ListenerSet", "shop", "Programmed", "Programmed")
        lab.put(listener_set(lab.namespace, "shop", "gw", port=8080))
        told = lab.until_condition("ListenerSet", "shop", "Programmed", "ParentNotProgrammed")
        assert (told["status"], told["observedGeneration"]) == ("False", 2)
        assert "http-8080 is not open there yet" in told["message"]
    assert {one["port"] for one in lab.get("Service")["spec"]["ports"]} == {80, 8080}
    with Pod(lab).running():
        lab.until_condition("ListenerSet", "shop", "Programmed", "Programmed")
        (listener,) = lab.get("ListenerSet", "shop")["status"]["listeners"]
        assert {one["type"]: one["status"] for one in listener["conditions"]}["Programmed"] == "True"


def test_a_gateway_that_goes_leaves_nothing_said(lab):
    lab.gateway(**OPEN)
    lab.put(listener_set(lab.namespace, "shop", "gw"))
    lab.until_condition("ListenerSet", "shop", "Accepted", "Accepted")
    lab.delete("Gateway", "gw")
    lab.until_condition("ListenerSet", "shop", "Accepted", "Pending")  # as the CRD has it by default
    assert not lab.get("ListenerSet", "shop")["status"].get("listeners")


def test_the_older_one_has_the_hostname(lab):
    lab.gateway(**OPEN)
    lab.put(listener_set(lab.namespace, "b", "gw", hostname="shop.example.com"))
    lab.until_condition("ListenerSet", "b", "Accepted", "Accepted")
    created = lab.get("ListenerSet", "b")["metadata"]["creationTimestamp"]

    def is_younger() -> bool:
        lab.put(listener_set(lab.namespace, "a", "gw", hostname="shop.example.com"))
        if lab.get("ListenerSet", "a")["metadata"]["creationTimestamp"] > created:
            return True
        lab.delete("ListenerSet", "a")
        return False

    lab.until(is_younger, "one that is younger")
    lab.until_condition("ListenerSet", "a", "Accepted", "ListenersNotValid")
    lab.delete("ListenerSet", "b")
    lab.until_condition("ListenerSet", "a", "Accepted", "Accepted")
    lab.until(lambda: listeners(lab) == ["http-80", f"{lab.namespace}/a/http"], "its listener")


def test_operators_leave_sets_of_each_other_alone(lab, cluster, namespace, tmp_path):
    """Two classes of ours with an operator each: a route on ListenerSets of both has two entries, and keeps them."""
    put(cluster, gateway_class(namespace), service(namespace, "tea"))
    second = Lab(cluster, Operator(cluster, tmp_path, class_name=namespace).start(), namespace)
    try:
        lab.gateway(**OPEN)
        lab.put(gateway(namespace, "other", namespace, **OPEN))
        both = of_set(namespace, "tea", "ours")
        both["spec"]["parentRefs"].append({"kind": "ListenerSet", "name": "theirs"})
        lab.put(listener_set(namespace, "ours", "gw"), listener_set(namespace, "theirs", "other"), both)
        lab.until(lambda: len(lab.parents("tea")) == 2, "an entry of each")
        for name in ("ours", "theirs"):
            lab.until_condition("ListenerSet", name, "Accepted", "Accepted")
        for one in (lab, second):
            one.operator.settled()
        assert {one["parentRef"]["name"] for one in lab.parents("tea")} == {"ours", "theirs"}
        lab.delete("ListenerSet", "ours")
        lab.until(lambda: [one["parentRef"]["name"] for one in lab.parents("tea")] == ["theirs"], "one entry")
    finally:
        second.operator.stop()


def test_its_certificates_are_beside_those_of_the_gateway(lab):
    """Those of its own namespace, without a grant; a new one at run time."""
    certify(lab, "cert", "www.example.com")
    certify(lab, "shop", "shop.example.com")
    lab.gateway(listeners=[https("https", "cert", hostname="www.example.com")], **OPEN)
    tls = {"certificateRefs": [{"name": "shop"}]}
    lab.put(listener_set(lab.namespace, "shop", "gw", port=443, protocol="HTTPS", tls=tls))
    lab.until(lambda: certificate_names(lab) == {443: [("www.example.com",), ("shop.example.com",)]}, "both")
    before = sealed(lab)
    certify(lab, "shop", "rotated.example.com")
    lab.until(lambda: sealed(lab).keys() != before.keys(), "the new one")
    lab.delete("Secret", "shop")
    lab.until_condition("ListenerSet", "shop", "Accepted", "ListenersNotValid")
    assert certificate_names(lab) == {443: [("www.example.com",)]}


def test_an_overlap_with_the_gateways_own_hostname_is_said_while_there_is_one(lab):
    certify(lab, "cert", "www.example.com")
    lab.gateway(listeners=[https("https", "cert", hostname="*.example.com")], **OPEN)
    tls = {"certificateRefs": [{"name": "cert"}]}
    lab.put(listener_set(lab.namespace, "shop", "gw", port=443, protocol="HTTPS", tls=tls))
    until_listener(lab, "https", OverlappingTLSConfig=("True", "OverlappingHostnames"))
    lab.delete("ListenerSet", "shop")
    lab.until(lambda: "OverlappingTLSConfig" not in listener(lab), "it is taken back, though the Gateway is as it was")
    assert lab.get("Gateway")["metadata"]["generation"] == 1
