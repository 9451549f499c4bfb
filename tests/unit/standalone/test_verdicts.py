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


def test_accepted_route_is_described():
    assert describe(ROUTE, route(GOOD)) == "HTTPRoute default/cafe: Accepted, ResolvedRefs"


def test_rejected_route_is_described_with_its_reason():
    status = route((condition("Accepted"), MISSING))
    assert describe(ROUTE, status) == (
        "HTTPRoute default/cafe: not ResolvedRefs (BackendNotFound): Service default/tea does not exist"
    )


def test_parents_of_a_route_are_named():
    status = route(GOOD, (condition("Accepted", "False", "NoMatchingListenerHostname"), condition("ResolvedRefs")))
    assert describe(ROUTE, status) == "HTTPRoute default/cafe: parent two: not Accepted (NoMatchingListenerHostname)"


def test_condition_that_is_bad_when_true_is_a_fault():
    status = route((*GOOD, condition("PartiallyInvalid", "True", "UnsupportedValue", "dropped")))
    assert describe(ROUTE, status) == "HTTPRoute default/cafe: PartiallyInvalid (UnsupportedValue): dropped"


def test_gateway_description_counts_routes():
    status = gateway((condition("Accepted"), condition("Programmed", "Unknown")), (condition("Accepted"),))
    assert faults(status) == []
    assert describe(GATEWAY, status) == "Gateway default/cafe: Accepted; routes by listener: http 3"


def test_rejected_listener_is_described_once():
    refused = condition("Accepted", "False", "PortUnavailable", "port 80 is taken by Gateway default/a")
    unprogrammed = condition("Programmed", "False", "Invalid")
    status = gateway((condition("Accepted"),), (refused, unprogrammed, condition("Conflicted", "False")))
    assert [str(fault) for fault in faults(status)] == [
        "listener http: not Accepted (PortUnavailable): port 80 is taken by Gateway default/a"
    ]


def test_gateway_that_is_not_programmed_is_a_fault():
    status = gateway((condition("Accepted"), condition("Programmed", "False", "Pending", "address in use")), ())
    assert [str(fault) for fault in faults(status)] == ["not Programmed (Pending): address in use"]


def test_fault_of_a_gateway_is_not_repeated_for_each_listener():
    waiting = condition("Programmed", "False", "Pending", "Unterminated string, starting at\n(line 1)\n")
    status = gateway((condition("Accepted"), waiting), (condition("Accepted"), waiting))
    assert describe(GATEWAY, status) == (
        "Gateway default/cafe: not Programmed (Pending): Unterminated string, starting at …"
    )


def test_listener_set_reports_once_that_its_gateway_is_not_programmed():
    waits = (condition("Accepted"), condition("Programmed", "False", "ParentNotProgrammed", "port 80 is in use"))
    listener = (condition("Accepted"), condition("Programmed", "False", "Pending", "port 80 is in use"))
    status = ListenerSetStatus(waits, (ListenerStatus("http", (), 2, listener),))
    line = describe(Key("ListenerSet", "default", "shop"), status)
    assert line == "ListenerSet default/shop: not Programmed (ParentNotProgrammed): port 80 is in use"
    fine = ListenerSetStatus((condition("Accepted"),), (ListenerStatus("http", (), 2, (condition("Accepted"),)),))
    assert describe(Key("ListenerSet", "default", "shop"), fine).endswith("Accepted; routes by listener: http 2")
