"""Steps: a translation without a referenced object, and the next one with it, count as one."""

import msgspec
import pytest

from support.builders import desired
from varnish_gateway import api, ir
from varnish_gateway.api import Key
from varnish_gateway.emit import routing
from varnish_gateway.emit.manifests import Installation
from varnish_gateway.ir import GatewayDelta, wire
from varnish_gateway.operator.observe.state import Batch, ObservedState
from varnish_gateway.operator.plan.reconciler import Reconciler
from varnish_gateway.operator.plan.step import Step
from varnish_gateway.translate import Translator

GATEWAY = Key("Gateway", "shop", "gw")
ROUTES = desired.routes(0, *(f"r{number}" for number in range(9)))


def step(gateway: GatewayDelta | None, *, inputs: dict[Key, api.Object | None] | None = None) -> Step:
    return Step(Batch(inputs=inputs or {}), ir.Delta(gateways={GATEWAY: gateway}))


def removal(routes: dict[Key, wire.Route | None]) -> GatewayDelta:
    return GatewayDelta(listeners=(), routes=dict.fromkeys(routes))


def addition(routes: dict[Key, wire.Route | None]) -> GatewayDelta:
    return GatewayDelta(listeners=desired.LISTENERS, routes=dict(routes))


@pytest.fixture
def reconciler(monkeypatch) -> Reconciler:
    """Serve a Gateway whose routes once needed more shards."""
    monkeypatch.setattr(routing, "PER_SHARD", 2)
    translator = Translator(class_name="varnish", only_class=True)
    made = Reconciler(translator, Installation(image="i"), ObservedState("varnish"))
    made.reconcile(*step(addition(ROUTES), inputs={GATEWAY: desired.gateway()}))
    made.reconcile(*step(GatewayDelta(routes=dict.fromkeys(list(ROUTES)[5:]))))
    assert len(made.gateways[GATEWAY].routing) == 8
    return made


def test_listener_whose_authority_is_read_in_between_moves_no_route(reconciler):
    left = dict(list(ROUTES.items())[:5])
    merged = step(removal(left)).merge(step(addition(left)))
    assert merged is not None
    reconciler.reconcile(*merged)
    assert len(reconciler.gateways[GATEWAY].routing) == 8


def test_recreated_gateway_is_not_merged_with_its_deletion():
    assert step(None).merge(step(addition(ROUTES))) is None


def test_gateway_deleted_by_the_later_step_is_deleted():
    merged = step(addition(ROUTES)).merge(step(None))
    assert merged is not None
    assert merged.delta.gateways == {GATEWAY: None}


def test_merged_delta_has_the_effect_of_both():
    first = GatewayDelta(listeners=desired.LISTENERS, user_vcl=None, routes=desired.routes(0, "a", "b"))
    second = GatewayDelta(placed=desired.LISTENERS, tls=ir.Tls(), routes={Key("HTTPRoute", "shop", "a"): None})
    one, two = ir.GatewayState(), ir.GatewayState()
    one.apply(first)
    one.apply(second)
    two.apply(first.merge(second))
    assert msgspec.structs.asdict(one) == msgspec.structs.asdict(two)


def test_merged_batch_names_everything_that_changed():
    key = Key("Service", "shop", "gw-vgw")
    first = Step(Batch(inputs={GATEWAY: None}, stored={GATEWAY}, has_released=True), ir.Delta())
    second = Step(Batch(inputs={GATEWAY: desired.gateway()}, owned={key}, reachability={GATEWAY}), ir.Delta())
    merged = first.merge(second)
    assert merged is not None
    assert merged.batch == Batch(
        inputs={GATEWAY: desired.gateway()}, stored={GATEWAY}, owned={key}, reachability={GATEWAY}, has_released=True
    )
