"""ListenerSets as the specification wants them."""

import time

import pytest
from msgspec import UNSET

from support.builders.objects import gateway, keyed, listener_set, obj, route, service
from support.builders.recording import recording
from varnish_gateway import api, ir
from varnish_gateway.api import Key
from varnish_gateway.translate import Translator
from varnish_gateway.translate.gateway import listener_sets

GW, SET = Key("Gateway", "default", "gw"), Key("ListenerSet", "default", "set")
EVERYWHERE = {"allowedListeners": {"namespaces": {"from": "All"}}}
OLD, YOUNG = ({"creationTimestamp": f"2024-01-0{day}T00:00:00Z"} for day in (1, 2))


def entry(name: str = "http", **fields) -> dict:
    return {"name": name, "port": 80, "protocol": "HTTP"} | fields


def delta_of(*objects: api.Object, **options) -> ir.Delta:
    return Translator(assume_class=True, **options).update(keyed(*objects))


def conditions_of(status: ir.ListenerSetStatus | ir.ListenerStatus) -> dict[str, tuple[str, str]]:
    return {each.type: (each.status, each.reason) for each in status.conditions}


def of_listeners(status: ir.ListenerSetStatus, kind: str = "Accepted") -> dict[str, str]:
    return {each.name: conditions_of(each)[kind][1] for each in status.listeners}


def in_sets(name: str, section: str | None = None, **ref) -> dict:
    named = {"sectionName": section} if section else {}
    return {"kind": "ListenerSet", "name": name, "namespace": "default"} | named | ref


def test_its_listeners_are_served_with_those_of_the_gateway():
    delta = delta_of(gateway(**EVERYWHERE), listener_set(metadata={"generation": 4}))
    assert [each.name for each in delta.gateways[GW].listeners] == ["http", "default/set/http"]
    assert [each.socket for each in delta.gateways[GW].listeners] == ["http-80", "http-80"]
    status = delta.statuses[SET]
    assert conditions_of(status) == {"Accepted": ("True", "Accepted"), "Programmed": ("Unknown", "Pending")}
    assert {each.observed_generation for each in (*status.conditions, *status.listeners[0].conditions)} == {4}
    assert delta.statuses[GW].attached_listener_sets == 1


@pytest.mark.parametrize(
    ("choice", "namespace", "allowed"),
    [
        (None, "default", False),
        ({}, "default", False),
        ({"from": "None"}, "default", False),
        ({"from": "Same"}, "default", True),
        ({"from": "Same"}, "team", False),
        ({"from": "All"}, "team", True),
        ({"from": "Selector", "selector": {"matchLabels": {"tier": "web"}}}, "team", True),
        ({"from": "Selector", "selector": {"matchLabels": {"tier": "app"}}}, "team", False),
        ({"selector": {"matchLabels": {"tier": "web"}}}, "team", False),
    ],
    ids=str,
)
def test_allowed_listeners_decides_the_namespaces(choice: dict | None, namespace: str, allowed: bool):
    asked = {} if choice is None else {"allowedListeners": {"namespaces": choice}}
    team = obj("Namespace", "team", group="", metadata={"labels": {"tier": "web"}})
    delta = delta_of(gateway(**asked), team, listener_set(namespace=namespace))
    status = delta.statuses[SET._replace(namespace=namespace)]
    assert len(delta.gateways[GW].listeners) == 1 + allowed
    assert (delta.statuses[GW].attached_listener_sets == 1) is allowed
    if not allowed:
        assert conditions_of(status) == {"Accepted": ("False", "NotAllowed"), "Programmed": ("False", "NotAllowed")}
        assert status.listeners == ()


def test_conflicts_are_decided_by_precedence():
    """The Gateway first, then by age, then by name, whatever the order in which they come."""
    a, b, c = entry("a", hostname="a.com"), entry("b", hostname="b.com"), entry("c", hostname="c.com")
    objects = [
        gateway("gw", a, **EVERYWHERE),
        listener_set("young", a, b, c, metadata=YOUNG),
        listener_set("old", c, metadata=OLD),
        listener_set("also-young", b, metadata=YOUNG),
    ]
    for ordered in (objects, objects[::-1]):
        delta = delta_of(*ordered)
        names = {key.name: of_listeners(status) for key, status in delta.statuses.items() if key.kind == "ListenerSet"}
        assert names == {
            "young": dict.fromkeys("abc", "HostnameConflict"),
            "old": {"c": "Accepted"},
            "also-young": {"b": "Accepted"},
        }
        assert conditions_of(delta.statuses[SET._replace(name="young")]) == {
            "Accepted": ("False", "ListenersNotValid"),
            "Programmed": ("False", "ListenersNotValid"),
        }
        assert delta.statuses[GW].attached_listener_sets == 2
        assert of_listeners(delta.statuses[GW]) == {"a": "Accepted"}


def test_names_are_compared_as_one_text():
    sets = [listener_set("x", entry(port=8080), namespace=namespace) for namespace in ("team", "team-a")]
    delta = delta_of(gateway(**EVERYWHERE), *sets)
    assert [each.name for each in delta.gateways[GW].listeners] == ["http", "team-a/x/http"]


def test_listeners_are_one_list_in_the_order_of_precedence():
    """The first certificate of a port is for clients that name no server: a new set must not change it by its name."""
    young, old = listener_set("a", metadata=YOUNG), listener_set("z", metadata=OLD)
    delta = delta_of(gateway(**EVERYWHERE), young, old)
    assert [each.name for each in delta.gateways[GW].listeners] == ["http", "default/z/http", "default/a/http"]


def test_a_protocol_that_can_not_share_the_port():
    tcp, https = entry("tcp", protocol="TCP"), entry("https", protocol="HTTPS")
    own = entry("own", hostname="own.com")
    delta = delta_of(gateway(**EVERYWHERE), listener_set("set", tcp, own), listener_set("tls", https))
    for kind in ("Accepted", "Programmed", "Conflicted"):
        assert of_listeners(delta.statuses[SET], kind)["tcp"] == "ProtocolConflict"
        assert of_listeners(delta.statuses[SET._replace(name="tls")], kind)["https"] == "ProtocolConflict"
    assert conditions_of(delta.statuses[SET])["Accepted"] == ("True", "ListenersNotValid")
    assert [each.name for each in delta.gateways[GW].listeners] == ["http", "default/set/own"]


def test_udp_listener_conflicts_with_none():
    delta = delta_of(gateway(**EVERYWHERE), listener_set("set", entry(protocol="UDP")))
    assert of_listeners(delta.statuses[SET]) == {"http": "UnsupportedProtocol"}


def test_unserved_listener_conflicts_with_none_of_its_set():
    listeners = (entry("tcp", protocol="TCP", port=81), entry(port=81))
    delta = delta_of(gateway(**EVERYWHERE), listener_set("set", *listeners))
    assert of_listeners(delta.statuses[SET]) == {"tcp": "UnsupportedProtocol", "http": "Accepted"}


def test_listeners_of_one_set_that_conflict_all_lose():
    listeners = (entry("one", port=81), entry("two", port=81), entry("tls", port=82, protocol="HTTPS"), entry(port=82))
    delta = delta_of(gateway(**EVERYWHERE), listener_set("set", *listeners), listener_set("other", entry(port=81)))
    assert set(of_listeners(delta.statuses[SET]).values()) == {"HostnameConflict", "ProtocolConflict"}
    assert of_listeners(delta.statuses[SET._replace(name="other")]) == {"http": "Accepted"}, "they claim nothing"


def test_deleted_listener_frees_its_place_for_the_next():
    first, second = (listener_set(name, entry(hostname="a.com")) for name in ("a", "b"))
    translator = Translator(assume_class=True)
    translator.update(keyed(gateway(**EVERYWHERE), first, second))
    delta = translator.update({api.key_of(first): None})
    assert [each.name for each in delta.gateways[GW].listeners] == ["http", "default/b/http"]
    assert set(delta.statuses) == {api.key_of(first), api.key_of(second)}
    assert conditions_of(delta.statuses[api.key_of(second)])["Accepted"] == ("True", "Accepted")


def test_a_route_names_the_set_or_the_gateway():
    """A Gateway as a parent does not stand for its ListenerSets."""
    listeners = (entry("one", hostname="a.com"), entry("two", port=81))
    objects = [gateway(**EVERYWHERE), listener_set("set", *listeners), service()]
    both = route("both", parentRefs=[{"name": "gw"}, in_sets("set", "two")])
    of_gateway = route("gateway", parentRefs=[{"name": "gw"}])
    by_port = route("port", parentRefs=[in_sets("set", port=80)])
    astray = route("astray", parentRefs=[{"name": "gw", "sectionName": "one"}, in_sets("set", "http")])
    delta = delta_of(*objects, both, of_gateway, by_port, astray)
    attached = {
        key.name: {each.listener: each.hostnames for each in found.attachments}
        for key, found in delta.gateways[GW].routes.items()
    }
    assert attached == {
        "both": {"http": ("*",), "default/set/two": ("*",)},
        "gateway": {"http": ("*",)},
        "port": {"default/set/one": ("*",)},
    }
    assert {each.name: each.attached_routes for each in delta.statuses[SET].listeners} == {"one": 1, "two": 1}
    assert {each.name: each.attached_routes for each in delta.statuses[GW].listeners} == {"http": 2}
    lost = delta.statuses[Key("HTTPRoute", "default", "astray")].parents
    assert [conditions_of(each)["Accepted"] for each in lost] == [("False", "NoMatchingParent")] * 2
    assert [(each.parent_ref.kind, each.parent_ref.section_name) for each in lost] == [
        ("Gateway", "one"),
        ("ListenerSet", "http"),
    ]


def test_the_same_namespace_is_that_of_the_set():
    objects = [gateway(**EVERYWHERE), listener_set(namespace="team"), service(), service(namespace="team")]
    parent = in_sets("set", namespace="team")
    delta = delta_of(*objects, route("near", "team", parentRefs=[parent]), route("far", parentRefs=[parent]))
    near, far = (delta.statuses[Key("HTTPRoute", *name)] for name in (("team", "near"), ("default", "far")))
    assert conditions_of(near.parents[0])["Accepted"] == ("True", "Accepted")
    assert conditions_of(far.parents[0])["Accepted"] == ("False", "NotAllowedByListeners")


def test_a_route_of_a_set_that_is_not_allowed():
    delta = delta_of(gateway(), listener_set(), service(), route(parentRefs=[in_sets("set")]))
    (parent,) = delta.statuses[Key("HTTPRoute", "default", "web")].parents
    assert conditions_of(parent)["Accepted"] == ("False", "NoMatchingParent")
    assert delta.gateways[GW].routes == {}


def test_a_gateway_of_another_is_not_for_us_to_speak_about():
    theirs = gateway(gatewayClassName="other", **EVERYWHERE)
    delta = delta_of(theirs, listener_set(), route(parentRefs=[in_sets("set")]))
    assert delta == ir.Delta()


def test_missing_gateway_on_one_machine_is_reported_to_the_listener_set():
    delta = delta_of(listener_set(), route(parentRefs=[in_sets("set"), in_sets("gone")]), one_machine=True)
    assert conditions_of(delta.statuses[SET]) == {
        "Accepted": ("False", "ParentNotAccepted"),
        "Programmed": ("False", "ParentNotProgrammed"),
    }
    parents = delta.statuses[Key("HTTPRoute", "default", "web")].parents
    assert [conditions_of(each)["Accepted"] for each in parents] == [("False", "NoMatchingParent")] * 2


def test_a_gateway_that_is_not_served_serves_no_set():
    ref = {"group": "example.com", "kind": "Parameters", "name": "p"}
    delta = delta_of(gateway(infrastructure={"parametersRef": ref}, **EVERYWHERE), listener_set())
    assert delta.gateways[GW].listeners == ()
    assert conditions_of(delta.statuses[SET])["Accepted"] == ("False", "ParentNotAccepted")


def test_invalid_class_keeps_listener_sets_served():
    ref = {"group": "example.com", "kind": "Parameters", "name": "p"}
    spec = {"controllerName": "varnish-software.com/gateway", "parametersRef": ref}
    delta = Translator().update(keyed(gateway(**EVERYWHERE), listener_set(), obj("GatewayClass", "varnish", spec=spec)))
    assert len(delta.gateways[GW].listeners) == 2
    assert conditions_of(delta.statuses[SET])["Accepted"] == ("False", "ParentNotAccepted")


def test_a_gateway_with_nothing_of_its_own_is_accepted_for_its_sets():
    delta = delta_of(gateway("gw", entry(protocol="UDP"), **EVERYWHERE), listener_set())
    assert conditions_of(delta.statuses[GW])["Accepted"] == ("True", "ListenersNotValid")


def test_ports_of_one_machine_belong_to_the_gateway_of_the_set():
    other = gateway("other", entry(port=81), metadata=YOUNG)
    asked = listener_set("set", entry(port=81))
    delta = delta_of(gateway(metadata=OLD, **EVERYWHERE), other, asked, one_machine=True)
    assert of_listeners(delta.statuses[SET]) == {"http": "Accepted"}
    assert of_listeners(delta.statuses[GW._replace(name="other")]) == {"http": "PortUnavailable"}
    other = gateway("other", entry(port=81), metadata=OLD)
    delta = delta_of(gateway(metadata=YOUNG, **EVERYWHERE), other, asked, one_machine=True)
    assert of_listeners(delta.statuses[SET]) == {"http": "PortUnavailable"}


def test_listener_set_with_a_new_parent_keeps_its_routes():
    translator = Translator(assume_class=True)
    objects = [gateway(**EVERYWHERE), gateway("second", **EVERYWHERE), service(), route(parentRefs=[in_sets("set")])]
    translator.update(keyed(*objects, listener_set()))
    delta = translator.update(keyed(listener_set(parent="second")))
    web, second = Key("HTTPRoute", "default", "web"), GW._replace(name="second")
    assert delta.gateways[GW].routes == {web: None}
    assert [each.name for each in delta.gateways[GW].listeners] == ["http"]
    assert list(delta.gateways[second].routes) == [web]
    assert len(delta.gateways[second].listeners) == 2
    assert (delta.statuses[GW].attached_listener_sets, delta.statuses[second].attached_listener_sets) == (UNSET, 1)


def test_change_of_one_listener_set_recomputes_only_that_one():
    """Of 1,000 ListenerSets on one port a change of one redoes that one; a route of one costs nothing of the others."""
    layers, computed = recording(listener_sets.RESOLVE)
    translator = Translator(layers, assume_class=True)
    sets = [listener_set(f"s{number}") for number in range(1000)]
    began = time.process_time()
    translator.update(keyed(gateway(**EVERYWHERE), service(), *sets))
    assert time.process_time() - began < 5, "far from quadratic"
    computed.clear()
    delta = translator.update(keyed(listener_set("s500", entry(hostname="other.example.com"))))
    assert [key.name for key in computed] == ["s500"]
    assert list(delta.statuses) == []
    delta = translator.update(keyed(route(parentRefs=[in_sets("s7")])))
    assert [key.name for key in computed] == ["s500"]
    assert set(delta.statuses) == {Key("HTTPRoute", "default", "web"), SET._replace(name="s7")}
    assert delta.gateways[GW].listeners is None
