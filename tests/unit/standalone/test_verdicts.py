"""Statuses in words."""

from varnish_gateway.api import Key
from varnish_gateway.ir import (
    Condition,
    GatewayStatus,
    ListenerSetStatus,
    ListenerStatus,
    ParentRef,
    ParentStatus,
    RouteStatus,
)
from varnish_gateway.standalone.verdicts import describe, faults

ROUTE, GATEWAY = Key("HTTPRoute", "default", "cafe"), Key("Gateway", "default", "cafe")


def condition(type_: str, status: str = "True", reason: str = "", message: str = "") -> Condition:
    return Condition(type_, status, reason or type_, message, 1)


def route(*parents: tuple[Condition, ...]) -> RouteStatus:
    names = ("one", "two")
    return RouteStatus(
        tuple(
            ParentStatus(ParentRef("g", "Gateway", name), "controller", conditions)
            for name, conditions in zip(names, parents, strict=False)
        )
    )


def gateway(conditions: tuple[Condition, ...], listener: tuple[Condition, ...]) -> GatewayStatus:
    return GatewayStatus((), conditions, (ListenerStatus("http", (), 3, listener),))


GOOD = (condition("Accepted"), condition("ResolvedRefs"))
MISSING = condition("ResolvedRefs", "False", "BackendNotFound", "Service default/tea does not exist")


def test_a_route_that_is_well():
    assert describe(ROUTE, route(GOOD)) == "HTTPRoute default/cafe: Accepted, ResolvedRefs"


def test_a_route_that_is_not():
    status = route((condition("Accepted"), MISSING))
    assert describe(ROUTE, status) == (
        "HTTPRoute default/cafe: not ResolvedRefs (BackendNotFound): Service default/tea does not exist"
    )


def test_several_parents_are_told_apart():
    status = route(GOOD, (condition("Accepted", "False", "NoMatchingListenerHostname"), condition("ResolvedRefs")))
    assert describe(ROUTE, status) == "HTTPRoute default/cafe: parent two: not Accepted (NoMatchingListenerHostname)"


def test_conditions_that_are_bad_when_true():
    status = route((*GOOD, condition("PartiallyInvalid", "True", "UnsupportedValue", "dropped")))
    assert describe(ROUTE, status) == "HTTPRoute default/cafe: PartiallyInvalid (UnsupportedValue): dropped"


def test_a_gateway_counts_its_routes():
    status = gateway((condition("Accepted"), condition("Programmed", "Unknown")), (condition("Accepted"),))
    assert faults(status) == []
    assert describe(GATEWAY, status) == "Gateway default/cafe: Accepted; routes by listener: http 3"


def test_a_listener_that_is_refused_is_said_once():
    refused = condition("Accepted", "False", "PortUnavailable", "port 80 is taken by Gateway default/a")
    unprogrammed = condition("Programmed", "False", "Invalid")
    status = gateway((condition("Accepted"),), (refused, unprogrammed, condition("Conflicted", "False")))
    assert [str(fault) for fault in faults(status)] == [
        "listener http: not Accepted (PortUnavailable): port 80 is taken by Gateway default/a"
    ]


def test_what_is_not_programmed_is_a_fault():
    status = gateway((condition("Accepted"), condition("Programmed", "False", "Pending", "address in use")), ())
    assert [str(fault) for fault in faults(status)] == ["not Programmed (Pending): address in use"]


def test_what_holds_for_the_gateway_is_not_said_again_for_each_listener():
    waiting = condition("Programmed", "False", "Pending", "Unterminated string, starting at\n(line 1)\n")
    status = gateway((condition("Accepted"), waiting), (condition("Accepted"), waiting))
    assert describe(GATEWAY, status) == (
        "Gateway default/cafe: not Programmed (Pending): Unterminated string, starting at …"
    )


def test_a_listener_set_says_once_that_its_gateway_is_not_programmed():
    waits = (condition("Accepted"), condition("Programmed", "False", "ParentNotProgrammed", "port 80 is in use"))
    listener = (condition("Accepted"), condition("Programmed", "False", "Pending", "port 80 is in use"))
    status = ListenerSetStatus(waits, (ListenerStatus("http", (), 2, listener),))
    said = describe(Key("ListenerSet", "default", "shop"), status)
    assert said == "ListenerSet default/shop: not Programmed (ParentNotProgrammed): port 80 is in use"
    fine = ListenerSetStatus((condition("Accepted"),), (ListenerStatus("http", (), 2, (condition("Accepted"),)),))
    assert describe(Key("ListenerSet", "default", "shop"), fine).endswith("Accepted; routes by listener: http 2")
