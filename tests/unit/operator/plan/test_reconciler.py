"""What has to go when a Gateway is not there."""

from types import SimpleNamespace

import pytest

from varnish_gateway.api import Key
from varnish_gateway.operator.execute.queue import Queue
from varnish_gateway.operator.observe.owned import LiveObject
from varnish_gateway.operator.plan.reconciler import Reconciler

GATEWAY = Key("Gateway", "shop", "gw")
SERVICE = Key("Service", "shop", "gw")


def live(owner: str) -> LiveObject:
    return LiveObject(
        uid="u", version="1", owner=owner, is_ending=False, is_ours=True, gateway=GATEWAY, class_label="", text=b"{}"
    )


@pytest.mark.parametrize(
    ("owner", "is_seen", "goes"),
    [
        pytest.param("uid of gw", True, True, id="its Gateway is not ours any more"),
        pytest.param("uid of gw", False, False, id="the garbage collector knows better whether its Gateway is gone"),
        pytest.param("", False, True, id="nobody else removes it"),
    ],
)
def test_what_is_left_of_a_gateway(owner, is_seen, goes):
    sources = SimpleNamespace(live={SERVICE: live(owner)}, stated={GATEWAY: ...} if is_seen else {})
    reconciler = Reconciler(SimpleNamespace(), SimpleNamespace(), sources, Queue())
    assert reconciler._is_unwanted(SERVICE) is goes
