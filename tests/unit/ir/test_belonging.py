"""ListenerSets and their Gateways, both ways."""

from varnish_gateway.api import Key
from varnish_gateway.ir.belonging import Belonging

WEB, SHOP = (Key("Gateway", "default", name) for name in ("web", "shop"))
ONE, TWO = (Key("ListenerSet", "default", name) for name in ("one", "two"))


def test_listener_sets_come_move_and_go():
    belonging = Belonging()
    belonging.put(ONE, WEB)
    belonging.put(TWO, WEB)
    assert belonging.concerned_by(WEB) == [WEB, ONE, TWO]
    assert (belonging.gateway_of(ONE), belonging.gateway_of(WEB)) == (WEB, WEB)
    belonging.put(ONE, SHOP)
    assert (belonging.concerned_by(WEB), belonging.concerned_by(SHOP)) == ([WEB, TWO], [SHOP, ONE])
    belonging.put(ONE, None)
    belonging.put(TWO, None)
    belonging.put(TWO, None)
    assert (belonging.concerned_by(WEB), belonging.gateway_of(TWO)) == ([WEB], TWO)
    assert not belonging._sets
