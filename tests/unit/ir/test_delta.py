from msgspec import UNSET

from varnish_gateway import ir


def test_a_new_delta_says_that_nothing_changed():
    assert ir.Delta() == ir.Delta(gateways={}, statuses={})
    gateway = ir.GatewayDelta()
    assert (gateway.listeners, gateway.user_vcl, gateway.parameters, gateway.routes) == (None, UNSET, None, {})


def test_deltas_share_nothing():
    ir.GatewayDelta().routes[ir.delta.Key("HTTPRoute", "default", "web")] = None
    assert ir.GatewayDelta().routes == {}
