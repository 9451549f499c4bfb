import pytest

from support.builders.objects import gateway, route, view_of
from varnish_gateway import api
from varnish_gateway.translate.conditions import Problem
from varnish_gateway.translate.gateway.listeners import validate
from varnish_gateway.translate.gateway.route_parents import RouteParent
from varnish_gateway.translate.options import RESERVED_PORTS
from varnish_gateway.translate.route.attachment import attach

ONE = {"name": "one", "port": 80, "protocol": "HTTP", "hostname": "a.example.com"}
TWO = {"name": "two", "port": 81, "protocol": "HTTP"}


def ask(*listeners: dict, namespace: str = "default", hostnames: tuple[str, ...] = (), **ref) -> dict | str:
    """Return the hostnames by listener, or the reason of the refusal."""
    gw = gateway("gw", *listeners)
    parent = RouteParent(api.key_of(gw), api.key_of(gw), validate(gw.spec.listeners, reserved_ports=RESERVED_PORTS))
    asking = route(namespace=namespace, hostnames=hostnames, parentRefs=[{"name": "gw"} | ref])
    answer = attach(asking, asking.spec.parent_refs[0], parent, view_of())
    return answer.reason if isinstance(answer, Problem) else {by.listener.name: by.hostnames for by in answer}


def test_route_attaches_to_every_matching_listener():
    assert ask(ONE, TWO) == {"one": ("*",), "two": ("*",)}


@pytest.mark.parametrize(
    ("ref", "expected"),
    [
        ({"sectionName": "two"}, {"two": ("*",)}),
        ({"port": 80}, {"one": ("*",)}),
        ({"sectionName": "two", "port": 81}, {"two": ("*",)}),
        ({"sectionName": "two", "port": 80}, "NoMatchingParent"),
        ({"sectionName": "three"}, "NoMatchingParent"),
        ({"port": 82}, "NoMatchingParent"),
    ],
    ids=str,
)
def test_section_name_and_port_select_listeners(ref: dict, expected: dict | str):
    assert ask(ONE, TWO, **ref) == expected


def test_allowed_routes_decide_attachment():
    assert ask(ONE, namespace="team") == "NotAllowedByListeners"
    assert ask(ONE, TWO | {"allowedRoutes": {"namespaces": {"from": "All"}}}, namespace="team") == {"two": ("*",)}
    assert ask(TWO | {"allowedRoutes": {"kinds": [{"kind": "GRPCRoute"}]}}) == "NotAllowedByListeners"


def test_hostnames_are_compared_last():
    assert ask(ONE, hostnames=("b.example.com",)) == "NoMatchingListenerHostname"
    assert ask(ONE, hostnames=("b.example.com",), namespace="team") == "NotAllowedByListeners"
    assert ask(ONE, hostnames=("b.example.com", "*.example.com")) == {"one": ("*.example.com",)}


def test_listener_on_a_reserved_port_still_attaches_routes():
    assert ask(TWO | {"port": 6082}) == {"two": ("*",)}


def test_unserved_protocol_attaches_no_route():
    assert ask(ONE | {"protocol": "TLS"}) == "NotAllowedByListeners"
