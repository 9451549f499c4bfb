from msgspec import UNSET

from support.builders.objects import route
from varnish_gateway import ir
from varnish_gateway.api import Key

GATEWAY, ROUTE = Key("Gateway", "default", "web"), route()


def test_new_delta_is_empty():
    assert ir.Delta() == ir.Delta(gateways={}, statuses={})
    gateway = ir.GatewayDelta()
    assert (gateway.listeners, gateway.user_vcl, gateway.parameters, gateway.routes) == (None, UNSET, None, {})


def test_two_deltas_share_no_state():
    ir.GatewayDelta().routes[ir.delta.Key("HTTPRoute", "default", "web")] = None
    assert ir.GatewayDelta().routes == {}


def test_merged_delta_has_the_later_value_of_each():
    first, second = Key("HTTPRoute", "default", "first"), Key("HTTPRoute", "default", "second")
    before = ir.Delta(statuses={first: None}, uncompiled={first: ROUTE}, released={first})
    later = ir.Delta(gateways={GATEWAY: None}, uncompiled={first: None, second: ROUTE}, released={second})
    assert before.merge(later) == ir.Delta(
        gateways={GATEWAY: None},
        statuses={first: None},
        uncompiled={first: None, second: ROUTE},
        released={first, second},
    )


def test_deletion_and_recreation_of_a_gateway_can_not_be_merged():
    made, deleted = (ir.Delta(gateways={GATEWAY: one}) for one in (ir.GatewayDelta(), None))
    assert deleted.merge(made) is None
    assert made.merge(deleted) == deleted
    assert made.merge(made) == made
