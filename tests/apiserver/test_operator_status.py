"""What the operator says about classes and Gateways."""

import signal

import pytest

from support.kube.operatorlab import Lab
from support.kube.operators import Operator, gateway, gateway_class, parameters, put, route, service
from support.kube.pods import Pod
from varnish_gateway.translate.gateway.gateway_class import CLUSTER_FEATURES

ADDRESS = "192.0.2.7"


def accepted(lab: Lab) -> tuple[str, str]:
    """Return what is said about the class, as a reason and a message."""
    condition = lab.conditions("GatewayClass", lab.class_name)["Accepted"]
    return condition["reason"], condition["message"]


def vcl_map(lab: Lab, text: str) -> dict:
    metadata = {"name": "user-vcl", "namespace": lab.namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"user.vcl": text}}


def use_vcl(lab: Lab) -> None:
    lab.configure(userVCLConfigMapRef={"name": "user-vcl", "namespace": lab.namespace})


def give_address(lab: Lab, address: str = ADDRESS, name: str = "gw") -> None:
    """Do what a cloud does."""
    status = {"loadBalancer": {"ingress": [{"ip": address}]}}
    lab.change("Service", name, {"status": status}, subresource="status", who="cloud")


def is_programmed(lab: Lab, generation: int) -> bool:
    condition = lab.conditions("Gateway")["Programmed"]
    return (condition["status"], condition["observedGeneration"]) == ("True", generation)


# -- classes -------------------------------------------------------------------------------------


def test_a_class_is_accepted_and_lists_what_we_support(lab):
    found = lab.get("GatewayClass", lab.class_name)
    condition = lab.conditions("GatewayClass", lab.class_name)["Accepted"]
    assert (condition["status"], condition["reason"]) == ("True", "Accepted")
    assert condition["observedGeneration"] == found["metadata"]["generation"]
    assert found["status"]["supportedFeatures"] == list(CLUSTER_FEATURES)


def test_classes_of_others_are_left_alone(lab):
    other = gateway_class("another-controller")
    other["spec"]["controllerName"] = "example.com/else"
    lab.put(other)
    untouched = lab.get("GatewayClass", "another-controller")
    lab.gateway()
    assert lab.get("GatewayClass", "another-controller") == untouched
    lab.delete("GatewayClass", "another-controller")


def test_another_class_of_ours_is_told_that_it_waits_until_its_operator_speaks(lab, namespace):
    """Every generation of it; and its own operator's word is never taken back."""
    lab.put(other := gateway_class(namespace))
    told = lab.until_condition("GatewayClass", namespace, "Accepted", "Pending")
    lab.until(lambda: lab.conditions("GatewayClass", namespace)["Accepted"].get("observedGeneration") == 1, "told")
    lab.put({**other, "spec": {**other["spec"], "description": "new"}})
    lab.until(lambda: lab.conditions("GatewayClass", namespace)["Accepted"]["observedGeneration"] == 2, "told again")
    assert f"GATEWAY_CLASS_NAME={namespace}" in lab.conditions("GatewayClass", namespace)["Accepted"]["message"]
    accepted_by_theirs = {**told, "status": "True", "reason": "Accepted", "observedGeneration": 2}
    status = {"status": {"conditions": [accepted_by_theirs]}}
    lab.change("GatewayClass", namespace, status, subresource="status", who="their-operator")
    lab.put({**other, "spec": {**other["spec"], "description": "newer"}})
    lab.gateway()
    assert lab.conditions("GatewayClass", namespace)["Accepted"] == accepted_by_theirs
    lab.delete("GatewayClass", namespace)


def test_parameters_that_are_missing_leave_gateways_as_they_are(lab):
    lab.gateway()
    before = [(one["kind"], one["metadata"]["resourceVersion"]) for one in lab.owned()]
    lab.put(gateway_class(lab.class_name, parameters="missing"))
    condition = lab.until_condition("GatewayClass", lab.class_name, "Accepted", "InvalidParameters")
    assert condition["status"] == "False"
    assert "missing does not exist" in condition["message"]
    told = lab.until_condition("Gateway", "gw", "Accepted", "InvalidParameters")
    assert "missing does not exist" in told["message"]
    lab.operator.settled()
    assert [(one["kind"], one["metadata"]["resourceVersion"]) for one in lab.owned()] == before
    lab.put(parameters("missing", replicas=2))
    lab.until_condition("GatewayClass", lab.class_name, "Accepted", "Accepted")
    lab.until_condition("Gateway", "gw", "Accepted", "Accepted")
    lab.until(lambda: lab.get("Deployment")["spec"]["replicas"] == 2, "what they ask for")
    lab.delete("GatewayClassParameters", "missing")


def test_user_vcl_is_waited_for(lab):
    lab.gateway()
    plain = lab.get("ConfigMap", "gw-vcl")["data"]["main.vcl"]
    use_vcl(lab)
    condition = lab.until_condition("GatewayClass", lab.class_name, "Accepted", "InvalidParameters")
    assert f"ConfigMap {lab.namespace}/user-vcl does not exist" in condition["message"]
    lab.operator.settled()
    assert lab.get("ConfigMap", "gw-vcl")["data"]["main.vcl"] == plain
    lab.put({**vcl_map(lab, ""), "data": {"other": ""}})
    lab.until(lambda: "has no key user.vcl" in accepted(lab)[1], "another message")
    lab.put(vcl_map(lab, "# mine"))
    lab.until_condition("GatewayClass", lab.class_name, "Accepted", "Accepted")
    lab.until(lambda: "# mine" in lab.get("ConfigMap", "gw-vcl")["data"]["main.vcl"], "the VCL")


def test_routes_flow_while_the_class_is_at_fault_also_after_a_restart(cluster, namespace, tmp_path):
    put(cluster, gateway_class(namespace), service(namespace, "tea"), route(namespace, "tea", "gw"))
    operator = Operator(cluster, tmp_path, class_name=namespace).start()
    lab = Lab(cluster, operator, namespace)
    lab.gateway()
    operator.stop()
    before = {one["kind"]: one for one in lab.owned()}
    lab.put(gateway_class(namespace, parameters="missing"), service(namespace, "milk"), route(namespace, "milk", "gw"))
    operator.start()
    try:
        lab.until(lambda: lab.routes() == {"tea", "milk"}, "the new route")
        lab.put(gateway(namespace, "new", namespace))
        lab.until_condition("Gateway", "new", "Accepted", "InvalidParameters")
        operator.settled()
        after = {one["kind"]: one for one in lab.owned()}
        assert [kind for kind in before if before[kind] != after[kind]] == ["ConfigMap"]
        assert after["ConfigMap"]["data"]["main.vcl"] == before["ConfigMap"]["data"]["main.vcl"]
        assert {one["metadata"]["annotations"]["gateway.varnish-software.com/gateway"] for one in lab.owned()} == {"gw"}
        lab.put(gateway_class(namespace))
        lab.until(lambda: lab.find("Deployment", "new"), "the new Gateway's pods")
    finally:
        operator.stop()


# -- Programmed ----------------------------------------------------------------------------------


def test_a_gateway_without_an_address_is_not_programmed(lab):
    lab.gateway()
    condition = lab.until_condition("Gateway", "gw", "Programmed", "AddressNotAssigned")
    assert condition["status"] == "False"
    assert not lab.get("Gateway")["status"].get("addresses")
    give_address(lab)
    condition = lab.until_condition("Gateway", "gw", "Programmed", "Pending")
    assert "no pod is ready" in condition["message"]
    assert lab.get("Gateway")["status"]["addresses"] == [{"type": "IPAddress", "value": ADDRESS}]


def test_a_hostname_of_a_load_balancer_is_an_address_too(lab):
    lab.gateway()
    status = {"loadBalancer": {"ingress": [{"hostname": "lb.example.com"}]}}
    lab.change("Service", "gw", {"status": status}, subresource="status", who="cloud")
    lab.until_condition("Gateway", "gw", "Programmed", "Pending")
    assert lab.get("Gateway")["status"]["addresses"] == [{"type": "Hostname", "value": "lb.example.com"}]


def test_programmed_means_that_the_pods_serve_this_generation(lab):
    lab.gateway()
    give_address(lab)
    with Pod(lab).running() as pod:
        lab.until(lambda: is_programmed(lab, 1), "generation 1 is programmed")
        listener = lab.get("Gateway")["status"]["listeners"][0]
        assert {one["type"]: one["status"] for one in listener["conditions"]}["Programmed"] == "True"
        pod.process.send_signal(signal.SIGSTOP)
        try:
            lab.gateway(infrastructure={"labels": {"a": "b"}})
            told = lab.until_condition("Gateway", "gw", "Programmed", "Pending")
        finally:
            pod.process.send_signal(signal.SIGCONT)
        assert (told["status"], told["observedGeneration"]) == ("False", 2)
        assert pod.name in told["message"]
        lab.until(lambda: is_programmed(lab, 2), "generation 2 is programmed")
        pod.say(ready=False)
        lab.until_condition("Gateway", "gw", "Programmed", "Pending")
        pod.say(ready=True)
        lab.until(lambda: is_programmed(lab, 2), "it is programmed again")


def test_vcl_that_does_not_compile_is_told_with_the_users_own_line(lab):
    lab.put(vcl_map(lab, "# fine"))
    use_vcl(lab)
    lab.gateway()
    give_address(lab)
    with Pod(lab).running():
        lab.until(lambda: is_programmed(lab, 1), "it is programmed")
        lab.put(vcl_map(lab, "# fine\nsub vcl_recv {\n  set req.nonsense = 1;\n}"))
        told = lab.until_condition("Gateway", "gw", "Programmed", "Invalid")
        assert "req.nonsense" in told["message"]
        assert "line 3" in told["message"].lower()
        lab.until_event("Invalid")
        lab.put(vcl_map(lab, "# better"))
        lab.until(lambda: is_programmed(lab, 1), "it is programmed again")


# -- spec.addresses ------------------------------------------------------------------------------


def test_an_address_that_is_asked_for_is_asked_of_the_load_balancer(lab):
    lab.gateway(addresses=[{"type": "IPAddress", "value": ADDRESS}])
    assert lab.get("Service")["spec"]["loadBalancerIP"] == ADDRESS
    told = lab.conditions("Gateway")["Programmed"]
    assert (told["reason"], ADDRESS in told["message"]) == ("AddressNotUsable", True)
    with Pod(lab).running():
        give_address(lab, "192.0.2.99")
        lab.until(lambda: lab.get("Gateway")["status"].get("addresses"), "an address")
        lab.operator.settled()
        assert lab.conditions("Gateway")["Programmed"]["reason"] == "AddressNotUsable"
        give_address(lab)
        lab.until(lambda: is_programmed(lab, 1), "it is programmed")


def test_addresses_are_corrected_step_by_step(lab):
    """As the conformance suite does it: first a type that we don't have, then one too many."""
    usable = {"type": "IPAddress", "value": ADDRESS}
    unusable = {"type": "IPAddress", "value": "192.0.2.99"}
    lab.gateway(addresses=[{"type": "example.com/pool", "value": "a pool"}, unusable, usable])
    lab.until_condition("Gateway", "gw", "Accepted", "UnsupportedAddress")
    lab.gateway(addresses=[unusable, usable])
    assert lab.until_condition("Gateway", "gw", "Accepted", "Accepted")["status"] == "True"
    assert lab.until_condition("Gateway", "gw", "Programmed", "AddressNotUsable")["status"] == "False"
    give_address(lab, "192.0.2.50")  # whatever the load balancer has
    lab.gateway(addresses=[usable])
    assert lab.get("Service")["spec"]["loadBalancerIP"] == ADDRESS
    with Pod(lab).running():
        give_address(lab)
        lab.until(lambda: is_programmed(lab, 3), "it is programmed")
    assert lab.get("Gateway")["status"]["addresses"] == [usable]
    observed = {condition["observedGeneration"] for condition in lab.conditions("Gateway").values()}
    assert observed == {3}


@pytest.mark.parametrize(
    ("addresses", "type_", "reason"),
    [
        ([{"type": "Hostname", "value": "gw.example.com"}], "Accepted", "UnsupportedAddress"),
        ([{"value": "192.0.2.1"}, {"value": "192.0.2.2"}], "Programmed", "AddressNotUsable"),
    ],
)
def test_addresses_that_cannot_be_asked_for_are_refused(lab, addresses, type_, reason):
    lab.gateway(addresses=addresses)
    told = lab.until_condition("Gateway", "gw", type_, reason)
    assert told["status"] == "False"
    assert "loadBalancerIP" not in (lab.find("Service") or {"spec": {}})["spec"]
