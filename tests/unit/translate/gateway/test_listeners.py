import pytest
from msgspec import structs

from support.builders.objects import gateway
from varnish_gateway.ir import wire
from varnish_gateway.translate.conditions import Problem
from varnish_gateway.translate.gateway.listeners import HTTP_ROUTE, reject, status_of, to_wire, validate
from varnish_gateway.translate.listener import ValidatedListener


def validated(*specs: dict) -> tuple[ValidatedListener, ...]:
    listeners = [{"name": f"l{number}", "port": 80, "protocol": "HTTP"} | spec for number, spec in enumerate(specs)]
    return validate(gateway("gw", *listeners).spec.listeners, reserved_ports={1969})


def reasons(listeners: tuple[ValidatedListener, ...]) -> list[str | None]:
    return [listener.rejected and listener.rejected.reason for listener in listeners]


def test_http_listener_is_accepted():
    (listener,) = validated({"hostname": "A.example.com"})
    assert (listener.hostname, listener.kinds, listener.rejected) == ("a.example.com", (HTTP_ROUTE,), None)
    assert to_wire(listener) == wire.Listener(name="l0", socket="http-80", port=80, hostname="a.example.com")


@pytest.mark.parametrize("protocol", ["TLS", "TCP", "UDP", "example.com/own"])
def test_unsupported_protocol_is_rejected(protocol: str):
    (listener,) = validated({"protocol": protocol})
    assert listener.rejected.reason == "UnsupportedProtocol"
    assert listener.kinds == ()


def test_https_has_sockets_of_its_own():
    (listener,) = validated({"protocol": "HTTPS", "port": 443})
    assert (listener.kinds, listener.rejected) == ((HTTP_ROUTE,), None)
    assert to_wire(listener) == wire.Listener(name="l0", socket="https-443", port=443, scheme="https")


@pytest.mark.parametrize(
    ("tls", "complaint"),
    [
        ({"mode": "Passthrough"}, "tls.mode: Passthrough"),
        ({"options": {"minVersion": "1.3"}}, "tls.options: minVersion"),
        ({"options": {"gateway.varnish-software.com/ciphers": "x"}}, "tls.options: gateway.varnish-software.com/ci"),
    ],
)
def test_unsupported_tls_options_are_rejected(tls, complaint):
    (listener,) = validated({"protocol": "HTTPS", "tls": tls})
    assert listener.rejected.reason == "UnsupportedValue"
    assert complaint in listener.rejected.message


def test_tls_options_of_other_domains_are_ignored():
    (listener,) = validated({"protocol": "HTTPS", "tls": {"options": {"example.com/ciphers": "x"}}})
    assert listener.rejected is None


def test_reserved_port_is_unavailable():
    assert reasons(validated({"port": 1969}, {"port": 1970})) == ["PortUnavailable", None]


def test_indistinguishable_listeners_all_conflict():
    listeners = validated({"hostname": "a.example.com"}, {"hostname": "A.example.com"}, {}, {"port": 81})
    assert reasons(listeners) == ["HostnameConflict", "HostnameConflict", None, None]
    assert listeners[0].conflict == listeners[0].rejected


def test_protocols_that_can_not_share_a_port():
    listeners = validated({}, {"protocol": "HTTPS"}, {"port": 81})
    assert reasons(listeners) == ["ProtocolConflict", "ProtocolConflict", None]


@pytest.mark.parametrize("served", ["HTTP", "HTTPS"])
@pytest.mark.parametrize("protocol", ["TLS", "TCP", "UDP"])
def test_unserved_protocol_claims_no_port(served: str, protocol: str):
    listeners = validated({"protocol": served}, {"protocol": protocol})
    assert reasons(listeners) == [None, "UnsupportedProtocol"]
    assert [listener.conflict for listener in listeners] == [None, None]


def test_tcp_listener_claims_no_port():
    assert reasons(validated({}, {"protocol": "TCP"})) == [None, "UnsupportedProtocol"]


def test_route_kinds():
    ours, strange = {"kind": "HTTPRoute"}, {"kind": "GRPCRoute"}
    fine, mixed, none = validated(
        *(
            {"port": port, "allowedRoutes": {"kinds": kinds}}
            for port, kinds in ((1, [ours]), (2, [ours, strange]), (3, [strange]))
        )
    )
    assert (fine.kinds, fine.unresolved) == ((HTTP_ROUTE,), None)
    assert (mixed.kinds, mixed.unresolved.reason) == ((HTTP_ROUTE,), "InvalidRouteKinds")
    assert (none.kinds, none.unresolved.reason) == ((), "InvalidRouteKinds")


def test_the_status_leaves_programmed_open_where_it_is_served():
    (listener,) = validated({})
    status = status_of(listener, 3, 7)
    assert status.attached_routes == 3
    assert [(each.type, each.status) for each in status.conditions] == [
        ("Accepted", "True"),
        ("Programmed", "Unknown"),
        ("ResolvedRefs", "True"),
        ("Conflicted", "False"),
    ]
    assert {each.observed_generation for each in status.conditions} == {7}


def test_an_accepted_listener_without_a_certificate_is_not_programmed():
    listener = structs.replace(validated({})[0], unserved=Problem("Invalid", "none"))
    assert not listener.is_served
    status = status_of(listener, 0, 1)
    assert [(each.status, each.reason) for each in status.conditions[:2]] == [
        ("True", "Accepted"),
        ("False", "Invalid"),
    ]


def test_rejected_listener_is_not_programmed():
    status = status_of(reject(validated({})[0], Problem("PortUnavailable", "taken")), 0, 1)
    assert [(each.status, each.reason) for each in status.conditions[:2]] == [
        ("False", "PortUnavailable"),
        ("False", "Invalid"),
    ]
