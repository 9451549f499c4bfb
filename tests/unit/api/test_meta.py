import pytest

from support.builders.objects import obj
from varnish_gateway.api import Key, key_of


def test_a_namespaced_object_has_its_namespace_in_its_key():
    assert key_of(obj("Service", "web", "team", group="")) == Key("Service", "team", "web")


def test_a_namespaced_object_without_one_is_in_default():
    assert key_of(obj("Service", "web", group="")) == Key("Service", "default", "web")


@pytest.mark.parametrize("kind", ["Namespace", "GatewayClass"])
def test_a_cluster_scoped_object_has_none_whatever_it_says(kind: str):
    group = {"Namespace": {"group": ""}}.get(kind, {"spec": {"controllerName": "x"}})
    assert key_of(obj(kind, "a", "team", **group)) == Key(kind, "", "a")


def test_keys_read_well():
    assert str(Key("Gateway", "default", "gw")) == "Gateway default/gw"
    assert str(Key("GatewayClass", "", "varnish")) == "GatewayClass varnish"


def test_age_is_in_seconds_and_none_is_the_oldest():
    assert obj("Namespace", "a", group="", metadata={"creationTimestamp": "1970-01-02T00:00:00Z"}).created == 86400
    assert obj("Namespace", "a", group="").created == 0
    assert obj("Namespace", "a", group="", metadata={"creationTimestamp": "0001-01-01T00:00:00Z"}).created == 0
