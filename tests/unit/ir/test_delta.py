from msgspec import UNSET

from varnish_gateway import ir


def test_new_delta_is_empty():
    assert ir.Delta() == ir.Delta(gateways={}, statuses={})
    gateway = ir.GatewayDelta()
    assert (gateway.listeners, gateway.user_vcl, gateway.parameters, gateway.routes) == (None, UNSET, None, {})


def test_two_deltas_share_no_state():
    ir.GatewayDelta().routes[ir.delta.Key("HTTPRoute", "default", "web")] = None
    assert ir.GatewayDelta().routes == {}
