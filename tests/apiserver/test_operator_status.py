"""What the operator says about classes and Gateways."""

import signal

import pytest

from support.kube.documents import gateway, gateway_class, parameters, put, route, service
from support.kube.gateway_status import ADDRESS, give_address, is_programmed
from support.kube.operator_harness import OperatorHarness
from support.kube.operator_process import OperatorProcess
from support.kube.pods.gateway_pod import GatewayPod
from varnish_gateway.translate.gateway.gateway_class import CLUSTER_FEATURES


def accepted(harness: OperatorHarness) -> tuple[str, str]:
    """Return the reason and the message of the class's condition."""
    condition = harness.conditions("GatewayClass", harness.class_name)["Accepted"]
    return condition["reason"], condition["message"]


def vcl_map(harness: OperatorHarness, text: str) -> dict:
    metadata = {"name": "user-vcl", "namespace": harness.namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"user.vcl": text}}


def use_vcl(harness: OperatorHarness) -> None:
    harness.configure(userVCLConfigMapRef={"name": "user-vcl", "namespace": harness.namespace})


# -- classes -------------------------------------------------------------------------------------


def test_class_is_accepted_and_lists_supported_features(harness):
    found = harness.get("GatewayClass", harness.class_name)
    condition = harness.conditions("GatewayClass", harness.class_name)["Accepted"]
    assert (condition["status"], condition["reason"]) == ("True", "Accepted")
    assert condition["observedGeneration"] == found["metadata"]["generation"]
    assert found["status"]["supportedFeatures"] == list(CLUSTER_FEATURES)


def test_classes_of_other_controllers_are_ignored(harness):
    other = gateway_class("another-controller")
    other["spec"]["controllerName"] = "example.com/else"
    harness.put(other)
    untouched = harness.get("GatewayClass", "another-controller")
    harness.gateway()
    assert harness.get("GatewayClass", "another-controller") == untouched
    harness.delete("GatewayClass", "another-controller")


def test_class_of_another_operator_is_pending_until_it_decides(harness, namespace):
    """Every generation of it; and its own operator's word is never taken back."""
    harness.put(other := gateway_class(namespace))
    reported = harness.until_condition("GatewayClass", namespace, "Accepted", "Pending")
    harness.wait_for(
        lambda: harness.conditions("GatewayClass", namespace)["Accepted"].get("observedGeneration") == 1,
        "it is written",
    )
    harness.put({**other, "spec": {**other["spec"], "description": "new"}})
    harness.wait_for(
        lambda: harness.conditions("GatewayClass", namespace)["Accepted"]["observedGeneration"] == 2,
        "the status is updated",
    )
    assert f"GATEWAY_CLASS_NAME={namespace}" in harness.conditions("GatewayClass", namespace)["Accepted"]["message"]
    accepted_by_theirs = {**reported, "status": "True", "reason": "Accepted", "observedGeneration": 2}
    status = {"status": {"conditions": [accepted_by_theirs]}}
    harness.change("GatewayClass", namespace, status, subresource="status", who="their-operator")
    harness.put({**other, "spec": {**other["spec"], "description": "newer"}})
    harness.gateway()
    assert harness.conditions("GatewayClass", namespace)["Accepted"] == accepted_by_theirs
    harness.delete("GatewayClass", namespace)


def test_missing_parameters_leave_gateways_unchanged(harness):
    harness.gateway()
    before = [(one["kind"], one["metadata"]["resourceVersion"]) for one in harness.owned()]
    harness.put(gateway_class(harness.class_name, parameters="missing"))
    condition = harness.until_condition("GatewayClass", harness.class_name, "Accepted", "InvalidParameters")
    assert condition["status"] == "False"
    assert "missing does not exist" in condition["message"]
    reported = harness.until_condition("Gateway", "gw", "Accepted", "InvalidParameters")
    assert "missing does not exist" in reported["message"]
    harness.operator.wait_idle()
    assert [(one["kind"], one["metadata"]["resourceVersion"]) for one in harness.owned()] == before
    harness.put(parameters("missing", replicas=2))
    harness.until_condition("GatewayClass", harness.class_name, "Accepted", "Accepted")
    harness.until_condition("Gateway", "gw", "Accepted", "Accepted")
    harness.wait_for(lambda: harness.get("Deployment")["spec"]["replicas"] == 2, "what they ask for")
    harness.delete("GatewayClassParameters", "missing")


def test_missing_user_vcl_keeps_the_last_vcl_until_it_exists(harness):
    harness.gateway()
    plain = harness.get("ConfigMap", "gw-vcl")["data"]["main.vcl"]
    use_vcl(harness)
    condition = harness.until_condition("GatewayClass", harness.class_name, "Accepted", "InvalidParameters")
    assert f"ConfigMap {harness.namespace}/user-vcl does not exist" in condition["message"]
    harness.operator.wait_idle()
    assert harness.get("ConfigMap", "gw-vcl")["data"]["main.vcl"] == plain
    harness.put({**vcl_map(harness, ""), "data": {"other": ""}})
    harness.wait_for(lambda: "has no key user.vcl" in accepted(harness)[1], "another message")
    harness.put(vcl_map(harness, "# mine"))
    harness.until_condition("GatewayClass", harness.class_name, "Accepted", "Accepted")
    harness.wait_for(lambda: "# mine" in harness.get("ConfigMap", "gw-vcl")["data"]["main.vcl"], "the VCL")


def test_routes_are_written_while_the_class_is_invalid_even_after_a_restart(cluster, namespace, tmp_path):
    put(cluster, gateway_class(namespace), service(namespace, "tea"), route(namespace, "tea", "gw"))
    operator = OperatorProcess(cluster, tmp_path, class_name=namespace).start()
    harness = OperatorHarness(cluster, operator, namespace)
    harness.gateway()
    operator.stop()
    before = {one["kind"]: one for one in harness.owned()}
    harness.put(
        gateway_class(namespace, parameters="missing"), service(namespace, "milk"), route(namespace, "milk", "gw")
    )
    operator.start()
    try:
        harness.wait_for(lambda: harness.routes() == {"tea", "milk"}, "the new route")
        harness.put(gateway(namespace, "new", namespace))
        harness.until_condition("Gateway", "new", "Accepted", "InvalidParameters")
        operator.wait_idle()
        after = {one["kind"]: one for one in harness.owned()}
        assert [kind for kind in before if before[kind] != after[kind]] == ["ConfigMap"]
        assert after["ConfigMap"]["data"]["main.vcl"] == before["ConfigMap"]["data"]["main.vcl"]
        assert {one["metadata"]["annotations"]["gateway.varnish-software.com/gateway"] for one in harness.owned()} == {
            "gw"
        }
        harness.put(gateway_class(namespace))
        harness.wait_for(lambda: harness.find("Deployment", "new-vgw"), "the new Gateway's pods")
    finally:
        operator.stop()


# -- Programmed ----------------------------------------------------------------------------------


def test_a_gateway_without_an_address_is_not_programmed(harness):
    harness.gateway()
    condition = harness.until_condition("Gateway", "gw", "Programmed", "AddressNotAssigned")
    assert condition["status"] == "False"
    assert not harness.get("Gateway")["status"].get("addresses")
    give_address(harness)
    condition = harness.until_condition("Gateway", "gw", "Programmed", "Pending")
    assert "no pod is ready" in condition["message"]
    assert harness.get("Gateway")["status"]["addresses"] == [{"type": "IPAddress", "value": ADDRESS}]


def test_a_hostname_of_a_load_balancer_is_an_address_too(harness):
    harness.gateway()
    status = {"loadBalancer": {"ingress": [{"hostname": "lb.example.com"}]}}
    harness.change("Service", "gw-vgw", {"status": status}, subresource="status", who="cloud")
    harness.until_condition("Gateway", "gw", "Programmed", "Pending")
    assert harness.get("Gateway")["status"]["addresses"] == [{"type": "Hostname", "value": "lb.example.com"}]


def test_programmed_waits_for_pods_to_serve_the_generation(harness):
    harness.gateway()
    give_address(harness)
    with GatewayPod(harness).running() as pod:
        harness.wait_for(lambda: is_programmed(harness, 1), "generation 1 is programmed")
        listener = harness.get("Gateway")["status"]["listeners"][0]
        assert {one["type"]: one["status"] for one in listener["conditions"]}["Programmed"] == "True"
        pod.process.send_signal(signal.SIGSTOP)
        try:
            harness.gateway(infrastructure={"labels": {"a": "b"}})
            reported = harness.until_condition("Gateway", "gw", "Programmed", "Pending")
        finally:
            pod.process.send_signal(signal.SIGCONT)
        assert (reported["status"], reported["observedGeneration"]) == ("False", 2)
        assert pod.name in reported["message"]
        harness.wait_for(lambda: is_programmed(harness, 2), "generation 2 is programmed")
        pod.say(ready=False)
        harness.until_condition("Gateway", "gw", "Programmed", "Pending")
        pod.say(ready=True)
        harness.wait_for(lambda: is_programmed(harness, 2), "it is programmed again")


def test_invalid_user_vcl_is_reported_with_the_users_line(harness):
    harness.put(vcl_map(harness, "# fine"))
    use_vcl(harness)
    harness.gateway()
    give_address(harness)
    with GatewayPod(harness).running():
        harness.wait_for(lambda: is_programmed(harness, 1), "it is programmed")
        harness.put(vcl_map(harness, "# fine\nsub vcl_recv {\n  set req.nonsense = 1;\n}"))
        reported = harness.until_condition("Gateway", "gw", "Programmed", "Invalid")
        assert "req.nonsense" in reported["message"]
        assert "line 3" in reported["message"].lower()
        harness.until_event("Invalid")
        harness.put(vcl_map(harness, "# better"))
        harness.wait_for(lambda: is_programmed(harness, 1), "it is programmed again")


# -- spec.addresses ------------------------------------------------------------------------------


def test_requested_address_is_passed_to_the_load_balancer(harness):
    harness.gateway(addresses=[{"type": "IPAddress", "value": ADDRESS}])
    assert harness.get("Service")["spec"]["loadBalancerIP"] == ADDRESS
    reported = harness.conditions("Gateway")["Programmed"]
    assert (reported["reason"], ADDRESS in reported["message"]) == ("AddressNotUsable", True)
    with GatewayPod(harness).running():
        give_address(harness, "192.0.2.99")
        harness.wait_for(lambda: harness.get("Gateway")["status"].get("addresses"), "an address")
        harness.operator.wait_idle()
        assert harness.conditions("Gateway")["Programmed"]["reason"] == "AddressNotUsable"
        give_address(harness)
        harness.wait_for(lambda: is_programmed(harness, 1), "it is programmed")


def test_addresses_are_corrected_step_by_step(harness):
    """As the conformance suite does it: first a type that we don't have, then one too many."""
    usable = {"type": "IPAddress", "value": ADDRESS}
    unusable = {"type": "IPAddress", "value": "192.0.2.99"}
    harness.gateway(addresses=[{"type": "example.com/pool", "value": "a pool"}, unusable, usable])
    harness.until_condition("Gateway", "gw", "Accepted", "UnsupportedAddress")
    harness.gateway(addresses=[unusable, usable])
    assert harness.until_condition("Gateway", "gw", "Accepted", "Accepted")["status"] == "True"
    assert harness.until_condition("Gateway", "gw", "Programmed", "AddressNotUsable")["status"] == "False"
    give_address(harness, "192.0.2.50")  # whatever the load balancer has
    harness.gateway(addresses=[usable])
    assert harness.get("Service")["spec"]["loadBalancerIP"] == ADDRESS
    with GatewayPod(harness).running():
        give_address(harness)
        harness.wait_for(lambda: is_programmed(harness, 3), "it is programmed")
    assert harness.get("Gateway")["status"]["addresses"] == [usable]
    observed = {condition["observedGeneration"] for condition in harness.conditions("Gateway").values()}
    assert observed == {3}


@pytest.mark.parametrize(
    ("addresses", "type_", "reason"),
    [
        ([{"type": "Hostname", "value": "gw.example.com"}], "Accepted", "UnsupportedAddress"),
        ([{"value": "192.0.2.1"}, {"value": "192.0.2.2"}], "Programmed", "AddressNotUsable"),
    ],
)
def test_unsupported_addresses_are_rejected(harness, addresses, type_, reason):
    harness.gateway(addresses=addresses)
    reported = harness.until_condition("Gateway", "gw", type_, reason)
    assert reported["status"] == "False"
    assert "loadBalancerIP" not in (harness.find("Service") or {"spec": {}})["spec"]
