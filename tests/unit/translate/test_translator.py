"""What an update says, and what it costs."""

import pytest
from msgspec import UNSET

from support.builders.objects import VARNISH_API, gateway, grant, keyed, obj, route, service
from support.builders.recording import recording
from varnish_gateway import ir
from varnish_gateway.api import Key
from varnish_gateway.translate import Translator
from varnish_gateway.translate.route import http_route
from varnish_gateway.translate.translator import LAYERS

GW, WEB = Key("Gateway", "default", "gw"), Key("HTTPRoute", "default", "web")
LISTENER = {"name": "http", "port": 80, "protocol": "HTTP"}
WEB_PORTS = [{"name": "http", "port": 80}]


def started(*objects, **options) -> Translator:
    translator = Translator(assume_class=True, **options)
    translator.update(keyed(*objects))
    return translator


def test_first_update_contains_everything():
    delta = Translator(assume_class=True).update(keyed(gateway(), service(), route()))
    changes = delta.gateways[GW]
    assert (changes.user_vcl, changes.parameters) == (None, ir.Parameters())
    assert len(changes.listeners) == 1
    assert list(changes.routes) == [WEB]
    assert set(delta.statuses) == {GW, WEB}


def test_the_order_of_objects_does_not_matter():
    objects = [gateway(), service(), route(), route("other")]
    there, back = (Translator(assume_class=True).update(keyed(*each)) for each in (objects, objects[::-1]))
    assert there == back


def test_an_unknown_setting_is_an_error():
    with pytest.raises(TypeError):
        Translator(colour="blue")


def test_changed_route_is_the_only_change():
    translator = started(gateway(), service(), route(), route("other"))
    delta = translator.update(keyed(route(hostnames=["a.example.com"])))
    assert list(delta.gateways) == [GW]
    assert list(delta.gateways[GW].routes) == [WEB]
    assert delta.gateways[GW].listeners is None
    assert delta.gateways[GW].user_vcl is UNSET
    assert delta.statuses == {}


def test_created_and_deleted_route_is_counted():
    translator = started(gateway(), service())
    assert translator.update(keyed(route())).statuses[GW].listeners[0].attached_routes == 1
    delta = translator.update({WEB: None})
    assert delta.statuses[GW].listeners[0].attached_routes == 0
    assert delta.statuses[WEB] is None
    assert delta.gateways[GW].routes == {WEB: None}


def test_created_service_resolves_the_route():
    translator = started(gateway(), route())
    delta = translator.update(keyed(service()))
    assert delta.gateways[GW].routes[WEB].rules[0].backends[0].service == "default/web"
    assert list(delta.statuses) == [WEB]


def test_deleted_grant_stops_the_traffic():
    crossing = route(rules=[{"backendRefs": [{"name": "web", "namespace": "team", "port": 80}]}])
    translator = started(gateway(), service(namespace="team"), grant("team"), crossing)
    delta = translator.update({Key("ReferenceGrant", "team", "grant"): None})
    assert delta.gateways[GW].routes[WEB].rules[0].backends[0].status == 500


def test_deleted_gateway_loses_its_routes():
    translator = started(gateway(), service(), route())
    delta = translator.update({GW: None})
    assert delta.gateways == {GW: None}
    assert delta.statuses == {GW: None, WEB: None}
    assert list(translator.update(keyed(gateway())).gateways[GW].routes) == [WEB]


def test_a_gateway_that_changes_its_class_is_not_ours_any_more():
    translator = started(gateway(), service(), route())
    assert translator.update(keyed(gateway(gatewayClassName="nginx"))).gateways == {GW: None}


def test_a_gateway_of_a_new_generation_has_a_new_status_and_nothing_else():
    translator = started(gateway(), service(), route())
    delta = translator.update(keyed(gateway(metadata={"generation": 2})))
    assert delta.gateways == {}
    assert list(delta.statuses) == [GW]


def test_changed_listener_recomputes_its_routes():
    translator = started(gateway(), service(), route(hostnames=["a.example.com", "b.example.com"]))
    delta = translator.update(keyed(gateway("gw", LISTENER | {"hostname": "a.example.com"})))
    assert delta.gateways[GW].routes[WEB].attachments[0].hostnames == ("a.example.com",)


def test_user_vcl_changes_nothing_else():
    spec = {"userVCLConfigMapRef": {"name": "vcl", "namespace": "default"}}
    ref = {"group": VARNISH_API, "kind": "GatewayClassParameters", "name": "p"}
    class_ = obj(
        "GatewayClass", "varnish", spec={"controllerName": "varnish-software.com/gateway", "parametersRef": ref}
    )
    parameters = obj("GatewayClassParameters", "p", group=VARNISH_API, spec=spec)
    first, second = (obj("ConfigMap", "vcl", "default", group="", data={"user.vcl": text}) for text in ("1", "2"))
    translator = started(class_, parameters, first, gateway(), service(), route())
    delta = translator.update(keyed(second))
    assert delta.gateways[GW] == ir.GatewayDelta(user_vcl=ir.UserVcl("ConfigMap default/vcl, key user.vcl", "2"))


def test_the_younger_gateway_gets_the_port_when_the_older_one_goes():
    young = gateway("young", metadata={"creationTimestamp": "2024-01-01T00:00:00Z"})
    key = Key("Gateway", "default", "young")
    translator = started(gateway(), young, one_machine=True)
    assert len(translator.update({GW: None}).gateways[key].listeners) == 1


@pytest.fixture
def many_routes() -> tuple[Translator, list[Key]]:
    """Return a translator of 500 routes, r7 to a Service of its own, and what is redone from now on."""
    to_own = [{"backendRefs": [{"name": "own", "port": 80}]}]
    many = [route(f"r{number}", rules=to_own) if number == 7 else route(f"r{number}") for number in range(500)]
    layers, computed = recording(http_route.LAYER)
    translator = started(gateway(), service(), service("own"), *many, layers=layers)
    computed.clear()
    return translator, computed


@pytest.mark.parametrize(
    "change",
    [route("r7", hostnames=["a.example.com"]), service("own", ports=[{"name": "new", "port": 80}])],
    ids=["route", "service"],
)
def test_change_among_many_routes_recomputes_one(many_routes, change):
    """20,000 routes cost as much as 10 because nothing but what the change touches is looked at."""
    translator, computed = many_routes
    translator.update(keyed(change))
    assert computed == [Key("HTTPRoute", "default", "r7")]


@pytest.mark.parametrize(
    "change",
    [
        obj("Service", "web", "default", group="", metadata={"annotations": {"a": "b"}}, spec={"ports": WEB_PORTS}),
        service(clusterIP="192.0.2.1"),
        obj("EndpointSlice", "web-1", "default", group="discovery.k8s.io", addressType="IPv4"),
        service("nobody's"),
    ],
    ids=["annotation", "clusterIP", "EndpointSlice", "another Service"],
)
def test_object_that_no_route_depends_on_recomputes_none(many_routes, change):
    translator, computed = many_routes
    assert translator.update(keyed(change)) == ir.Delta()
    assert computed == []


def test_deleted_objects_leave_no_dependencies():
    translator = started(gateway(), service(), route())
    translator.update({GW: None, WEB: None, Key("Service", "default", "web"): None})
    kinds = ["Gateway", "GatewayClass", "HTTPRoute", "Service", "tally", *(layer.table.name for layer in LAYERS)]
    assert {kind: list(translator.referenced(kind)) for kind in kinds} == {kind: [] for kind in kinds}


def test_referenced_lists_existing_and_missing_objects_of_the_kind():
    own = [{"backendRefs": [{"name": "own", "port": 80}]}]
    translator = started(gateway(), service(), service("unused"), route(), route("other", rules=own))
    assert set(translator.referenced("Service")) == {Key("Service", "default", name) for name in ("web", "own")}
    translator.update(keyed(route("other")))
    assert set(translator.referenced("Service")) == {Key("Service", "default", "web")}
    translator.update({WEB: None})
    assert set(translator.referenced("Service")) == {Key("Service", "default", "web")}, "the other one still needs it"
    assert set(translator.referenced("ConfigMap")) == set()
