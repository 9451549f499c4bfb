"""Routing for pods of any version: readable for them, and the same however it came about."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec import json, structs

from support import previous
from support.builders.desired import route
from varnish_gateway.api import Key
from varnish_gateway.emit.withholding import needed_by, route_without
from varnish_gateway.ir import GatewayDelta, GatewayState, wire
from varnish_gateway.ir.capabilities import ALL
from varnish_gateway.operator.plan.routing import DesiredRouting

paths = st.builds(
    wire.PathMatch, type=st.sampled_from(["exact", "prefix", "regex"]), value=st.sampled_from(["/", "/tea", "/te.*"])
)
rules = st.builds(
    wire.Rule,
    name=st.none() | st.sampled_from(["one", "two"]),
    matches=st.lists(st.builds(wire.Match, path=paths), min_size=1, max_size=2).map(tuple),
    status=st.none() | st.just(500),
    retry=st.none() | st.builds(wire.Retry, attempts=st.integers(0, 2**31 - 1)),
    approximate=st.booleans(),
    cache=st.none() | st.builds(wire.CachePolicy, default_ttl=st.just(1000), grace=st.none() | st.just(0)),
)
routes = st.builds(
    lambda name, rules: structs.replace(route(name), rules=tuple(rules)),
    st.sampled_from(["tea", "coffee", "milk"]),
    st.lists(rules, min_size=1, max_size=4),
)
capabilities = st.frozensets(st.sampled_from(sorted(ALL)))
changes = st.lists(routes | capabilities | st.sampled_from(["tea", "coffee"]), max_size=12)


def unmarked(rule: wire.Rule) -> wire.Rule:
    """Return a rule without what capabilities add."""
    return structs.replace(rule, approximate=False, retry=None, cache=None)


@given(routes)
def test_previous_version_reads_every_route(made: wire.Route) -> None:
    text = json.encode(route_without(made, ALL))
    assert json.encode(json.decode(text, type=previous.wire().Route)) == text


@given(routes, capabilities)
def test_no_rule_is_lost_and_valid_ones_keep_their_order(made: wire.Route, lacking: frozenset[str]) -> None:
    expressed = route_without(made, lacking)
    assert sorted(map(repr, map(unmarked, expressed.rules))) == sorted(map(repr, map(unmarked, made.rules)))
    valid = [unmarked(rule) for rule in made.rules if not rule.approximate]
    if "approximate-rules" in lacking:
        assert [unmarked(rule) for rule in expressed.rules][: len(valid)] == valid
    assert (expressed is made) == (not needed_by(made, lacking))
    assert route_without(expressed, lacking) is expressed


@given(changes)
def test_routing_depends_on_routes_and_capabilities_and_not_on_their_order(made: list) -> None:
    gateway, understood = Key("Gateway", "shop", "gw"), ALL
    routing, state = DesiredRouting(gateway, 1), GatewayState()
    for change in made:
        if isinstance(change, frozenset):
            understood = change
            routing.express(change, state)
            continue
        name = change if isinstance(change, str) else change.name
        delta = GatewayDelta(routes={Key("HTTPRoute", "shop", name): None if isinstance(change, str) else change})
        state.apply(delta)
        routing.update(delta)
    scratch = DesiredRouting(gateway, 1, understood)
    scratch.update(GatewayDelta(routes=dict(state.routes)))
    assert routing.shards == scratch.shards
    assert routing.withholding.withheld == scratch.withholding.withheld
