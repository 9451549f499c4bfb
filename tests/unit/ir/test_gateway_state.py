from msgspec import UNSET

from varnish_gateway import ir
from varnish_gateway.api import Key
from varnish_gateway.ir import wire

WEB = Key("HTTPRoute", "default", "web")
HTTP = wire.Listener(name="http", socket="http-80", port=80)


def route(name: str = "web") -> wire.Route:
    return wire.Route(namespace="default", name=name, attachments=(), rules=())


def test_empty_delta_changes_nothing():
    state = ir.GatewayState(listeners=(HTTP,), parameters=ir.Parameters(), user_vcl=None, routes={WEB: route()})
    state.apply(ir.GatewayDelta())
    assert state == ir.GatewayState(listeners=(HTTP,), parameters=ir.Parameters(), user_vcl=None, routes={WEB: route()})


def test_delta_replaces_every_field_that_it_has():
    fields = {
        "listeners": (HTTP,),
        "placed": (HTTP,),
        "user_vcl": ir.UserVcl("here", "sub vcl_recv {}"),
        "parameters": ir.Parameters(image="x"),
        "tls": ir.Tls(files={"a.pem": b"a"}),
        "routes": {WEB: route()},
    }
    state = ir.GatewayState()
    state.apply(ir.GatewayDelta(**fields))
    assert state == ir.GatewayState(**fields)


def test_deleted_route_is_removed():
    state = ir.GatewayState(routes={WEB: route()})
    state.apply(ir.GatewayDelta(routes={WEB: None, Key("HTTPRoute", "default", "unknown"): None}))
    assert state.routes == {}


def test_unavailable_user_vcl_keeps_the_last_available_one():
    state, last = ir.GatewayState(), ir.UserVcl("here", "1")
    missing = ir.UserVclUnavailable("here", "ConfigMap does not exist")
    state.apply(ir.GatewayDelta(user_vcl=missing))
    assert (state.user_vcl, state.user_vcl_unavailable) == (UNSET, missing)
    state.apply(ir.GatewayDelta(user_vcl=last))
    assert (state.user_vcl, state.user_vcl_unavailable) == (last, None)
    state.apply(ir.GatewayDelta(user_vcl=missing))
    assert (state.user_vcl, state.user_vcl_unavailable) == (last, missing)
    state.apply(ir.GatewayDelta(user_vcl=None))
    assert (state.user_vcl, state.user_vcl_unavailable) == (None, None)
