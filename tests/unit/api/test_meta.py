import pytest

from support.builders.objects import obj
from varnish_gateway.api import Key, key_of
from varnish_gateway.api.meta import timestamp


def test_key_of_a_namespaced_object_has_its_namespace():
    assert key_of(obj("Service", "web", "team", group="")) == Key("Service", "team", "web")


def test_object_without_a_namespace_is_in_default():
    assert key_of(obj("Service", "web", group="")) == Key("Service", "default", "web")


@pytest.mark.parametrize("kind", ["Namespace", "GatewayClass"])
def test_key_of_a_cluster_scoped_object_has_no_namespace(kind: str):
    group = {"Namespace": {"group": ""}}.get(kind, {"spec": {"controllerName": "x"}})
    assert key_of(obj(kind, "a", "team", **group)) == Key(kind, "", "a")


def test_key_is_printed_for_people():
    assert str(Key("Gateway", "default", "gw")) == "Gateway default/gw"
    assert str(Key("GatewayClass", "", "varnish")) == "GatewayClass varnish"


def test_creation_is_in_seconds_and_a_missing_one_is_the_oldest():
    assert obj("Namespace", "a", group="", metadata={"creationTimestamp": "1970-01-02T00:00:00Z"}).created == 86400
    assert obj("Namespace", "a", group="").created == 0
    assert obj("Namespace", "a", group="", metadata={"creationTimestamp": "0001-01-01T00:00:00Z"}).created == 0


def test_timestamp_is_in_utc_and_has_whole_seconds():
    assert timestamp(1_700_000_000.9) == "2023-11-14T22:13:20Z"
