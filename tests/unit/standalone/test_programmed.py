"""Statuses on one machine: a closed port affects its own listeners."""

import pytest

from support.kube.documents import gateway, gateway_class, listener_set
from varnish_gateway.api import Key, key_of
from varnish_gateway.decoding import decode
from varnish_gateway.ir import GatewayStatus, ListenerSetStatus
from varnish_gateway.standalone.programmed import PlaneReport, with_report
from varnish_gateway.standalone.translation import file_translator

GATEWAY = Key("Gateway", "infra", "edge")
SETS = [Key("ListenerSet", "shop", name) for name in ("one", "two")]


@pytest.fixture(scope="module")
def translated():
    own = gateway("infra", "edge", "varnish", ports=[80])
    own["spec"]["allowedListeners"] = {"namespaces": {"from": "All"}}
    documents = [gateway_class("varnish"), own]
    documents += [listener_set("shop", name, "edge", port=port) for name, port in (("one", 8081), ("two", 8082))]
    for document in documents[2:]:
        document["spec"]["parentRef"]["namespace"] = "infra"
    objects = {key_of(obj): obj for obj in map(decode, documents)}
    return file_translator().update(objects)


def programmed(translated, key, closed, *, served=True):
    status = translated.statuses[key]
    assert isinstance(status, GatewayStatus | ListenerSetStatus)
    report = PlaneReport(served, "", closed)
    complete = with_report(key, status, report, translated.gateways[GATEWAY].placed)
    return next((one.status, one.message) for one in complete.conditions if one.type == "Programmed")


def test_closed_port_of_a_listener_set_affects_it_alone(translated):
    closed = {"http-8081": "in use by nginx"}
    assert programmed(translated, GATEWAY, closed)[0] == "True"
    assert programmed(translated, SETS[1], closed)[0] == "True"
    status, message = programmed(translated, SETS[0], closed)
    assert status == "False"
    assert "http-8081" in message
    assert "in use by nginx" in message


def test_closed_port_of_the_gateway_itself_is_its_own(translated):
    assert programmed(translated, GATEWAY, {"http-80": "in use by nginx"}) == ("False", "in use by nginx")
    assert programmed(translated, SETS[0], {"http-80": "in use by nginx"})[0] == "True"


def test_what_is_not_served_at_all_is_not_programmed(translated):
    assert [programmed(translated, key, {}, served=False)[0] for key in (GATEWAY, *SETS)] == ["False"] * 3
