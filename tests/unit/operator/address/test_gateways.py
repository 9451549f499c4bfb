"""What the address of a Gateway knows about it."""

from types import SimpleNamespace

import msgspec
import pytest

from varnish_gateway import api
from varnish_gateway.api import Key
from varnish_gateway.operator.address.gateways import AddressedGateways
from varnish_gateway.operator.observe.pods import GatewayPod
from varnish_gateway.operator.observe.state import ObservedState

KEY = Key("Gateway", "shop", "web")


def gateway(**annotations: str) -> SimpleNamespace:
    document = {
        "metadata": {
            "name": "web",
            "namespace": "shop",
            "uid": "u",
            "annotations": {name.replace("_", "-"): value for name, value in annotations.items()},
        },
        "spec": {"gatewayClassName": "varnish", "listeners": []},
    }
    return SimpleNamespace(
        gateway=msgspec.convert(document, api.Gateway),
        uid="u",
        token="what this operator would store",
    )


@pytest.fixture
def observed(monkeypatch):
    observed = ObservedState("varnish")
    monkeypatch.setattr(observed, "token_in_use", lambda key, uid: f"stored for {key.name} {uid}")
    return observed


NAMED = {"gateway.varnish-software.com/invalidation-tokens": "purgers", "example.com/other": "x"}


def test_gateway_is_found_with_what_is_stored_for_it(observed):
    desired = {KEY: gateway(**NAMED)}
    gateways = AddressedGateways(desired, observed)
    found = gateways.find("shop", "web")
    assert (found.key, found.secret) == (KEY, "purgers")
    assert found.token == "stored for web u"
    assert found.pods() == ()
    pod = GatewayPod("a", KEY, "192.0.2.1", is_ready=True)
    observed.put_pod(Key("Pod", "shop", "a"), pod)
    assert found.pods() == (pod,), "the pods of the moment"


def test_gateway_without_tokens_or_of_another_operator_has_no_address(observed):
    assert AddressedGateways({KEY: gateway()}, observed).find("shop", "web") is None
    assert AddressedGateways({KEY: gateway(**NAMED)}, observed).find("shop", "other") is None
    assert AddressedGateways({KEY: gateway(**NAMED)}, observed).find("other", "web") is None


def test_other_annotations_of_a_gateway_are_no_change():
    assert gateway(**NAMED).gateway == gateway(**{**NAMED, "example.com/other": "y"}).gateway
    assert gateway(**NAMED).gateway != gateway().gateway
