from support.builders.objects import gateway, keyed, obj
from varnish_gateway import api, ir
from varnish_gateway.api import Key
from varnish_gateway.translate import Translator

GW = Key("Gateway", "default", "gw")


def listener(name: str = "http", **fields) -> dict:
    return {"name": name, "port": 80, "protocol": "HTTP"} | fields


def status_of(*objects: api.Object, **options) -> ir.GatewayStatus | None:
    delta = Translator(assume_class=True, **options).update(keyed(*objects))
    return delta.statuses.get(GW)


def conditions(status: ir.GatewayStatus) -> dict[str, tuple[str, str]]:
    return {each.type: (each.status, each.reason) for each in status.conditions}


def test_problem_free_condition_is_true():
    status = status_of(gateway(metadata={"generation": 5}))
    assert conditions(status) == {
        "Accepted": ("True", "Accepted"),
        "Programmed": ("Unknown", "Pending"),
        "ResolvedRefs": ("True", "ResolvedRefs"),
    }
    assert {each.observed_generation for each in status.conditions} == {5}


def test_some_listeners_are_not_served():
    status = status_of(gateway("gw", listener(), listener("tcp", protocol="TCP", port=81)))
    assert conditions(status)["Accepted"] == ("True", "ListenersNotValid")
    assert conditions(status)["Programmed"] == ("Unknown", "Pending")


def test_no_listener_is_served():
    status = status_of(gateway("gw", listener(protocol="TCP")))
    assert conditions(status)["Accepted"] == ("False", "ListenersNotValid")
    assert conditions(status)["Programmed"] == ("False", "Invalid")


def test_references_of_listeners_show_in_the_gateway():
    status = status_of(gateway("gw", listener(allowedRoutes={"kinds": [{"kind": "GRPCRoute"}]})))
    assert conditions(status)["ResolvedRefs"] == ("False", "ListenersNotResolved")


def test_addresses():
    assert conditions(status_of(gateway(addresses=[{"value": "192.0.2.1"}])))["Programmed"] == (
        "False",
        "AddressNotUsable",
    )
    assert conditions(status_of(gateway(addresses=[{"type": "Hostname"}])))["Programmed"] == ("Unknown", "Pending")
    unsupported = status_of(gateway(addresses=[{"type": "example.com/pool", "value": "a"}]))
    assert conditions(unsupported)["Accepted"] == ("False", "UnsupportedAddress")


def test_gateway_with_an_unsupported_field_is_not_served():
    ref = {"group": "example.com", "kind": "Parameters", "name": "p"}
    delta = Translator(assume_class=True).update(keyed(gateway(infrastructure={"parametersRef": ref})))
    assert conditions(delta.statuses[GW])["Accepted"] == ("False", "InvalidParameters")
    assert delta.gateways[GW].listeners == ()


def test_invalid_class_keeps_the_last_configuration():
    ref = {"group": "example.com", "kind": "Parameters", "name": "p"}
    spec = {"controllerName": "varnish-software.com/gateway", "parametersRef": ref}
    delta = Translator().update(keyed(gateway(), obj("GatewayClass", "varnish", spec=spec)))
    assert conditions(delta.statuses[GW])["Accepted"] == ("False", "InvalidParameters")
    assert len(delta.gateways[GW].listeners) == 1
    assert isinstance(delta.gateways[GW].user_vcl, ir.UserVclUnavailable)


def test_a_class_is_assumed_only_by_its_name_and_only_without_any_other():
    other = obj("GatewayClass", "other", spec={"controllerName": "example.com/other"})
    assert status_of(gateway()) is not None
    assert status_of(gateway(gatewayClassName="nginx")) is None
    assert status_of(gateway(), other) is None
    assert status_of(gateway(gatewayClassName="edge"), class_name="edge") is not None


def test_a_gateway_without_listeners_is_not_valid():
    status = status_of(obj("Gateway", "gw", spec={"gatewayClassName": "varnish", "listeners": []}))
    assert conditions(status)["Accepted"] == ("False", "ListenersNotValid")


def test_a_port_is_claimed_by_an_accepted_listener_alone():
    older = gateway("first", listener(protocol="TLS"), metadata={"creationTimestamp": "2020-01-01T00:00:00Z"})
    younger = gateway("gw", listener(), metadata={"creationTimestamp": "2024-01-01T00:00:00Z"})
    assert conditions(status_of(older, younger, one_machine=True))["Accepted"] == ("True", "Accepted")


def test_a_listener_that_waits_for_its_certificate_keeps_its_port():
    older = gateway("first", listener(protocol="HTTPS"), metadata={"creationTimestamp": "2020-01-01T00:00:00Z"})
    younger = gateway("gw", listener(), metadata={"creationTimestamp": "2024-01-01T00:00:00Z"})
    assert conditions(status_of(older, younger, one_machine=True))["Accepted"] == ("False", "ListenersNotValid")
