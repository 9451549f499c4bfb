"""A Gateway's routing follows what its pods understand, at the cost of what that touches."""

from msgspec import json, structs

from support.builders.desired import LISTENERS, desired_gateway, route, routes
from varnish_gateway.api import Key
from varnish_gateway.api.varnish import Parameters, Paths, SharesParameters
from varnish_gateway.ir import GatewayDelta, wire
from varnish_gateway.ir.capabilities import (
    ALL,
    APPROXIMATE_RULES,
    CACHE_POLICIES,
    MANY_RETRIES,
    NONE,
    REQUEST_RULES,
    SHARES,
)
from varnish_gateway.operator.plan.gateway import DesiredGateway

TEA = Key("HTTPRoute", "shop", "tea")
INVALID = structs.replace(route("tea"), rules=(wire.Rule(status=500, approximate=True),))
MANY = 500


def large_gateway() -> DesiredGateway:
    """Return a Gateway of several shards, with one route that needs a capability; all of it is written."""
    desired = desired_gateway(with_routes={**routes(1, *(f"r{number}" for number in range(MANY))), TEA: INVALID})
    desired.routing.drain_dirty()
    desired.routing.drain_patches()
    desired.routing.on_index_written(desired.routing.hashes)
    return desired


def read(desired: DesiredGateway, shard: int) -> wire.Routing:
    return json.decode(desired.routing.shards[shard].text, type=wire.Routing)


def shards_with_approximate(desired: DesiredGateway) -> set[int]:
    return {number for number, shard in desired.routing.shards.items() if b"approximate" in shard.text}


def test_changed_capabilities_touch_the_shards_that_need_them_and_the_one_that_names_them():
    desired = large_gateway()
    before = desired.routing.shards
    (holder,) = shards_with_approximate(desired)
    assert desired.routing.express(NONE, desired.state)
    assert desired.routing.drain_dirty() == {0, holder}
    assert shards_with_approximate(desired) == set()
    assert desired.routing.express(ALL, desired.state)
    assert desired.routing.drain_dirty() == {0, holder}
    assert desired.routing.shards == before
    assert not desired.routing.express(ALL, desired.state)


def test_patch_and_shard_say_the_same():
    """A chaperone keeps what it patched only if it has the hash of the shard."""
    desired = large_gateway()
    desired.routing.express(NONE, desired.state)
    (patch,) = json.decode(desired.routing.drain_patches(), type=wire.Fresh).patches
    assert patch.routes == tuple(one for one in read(desired, patch.shard).routes if one.name == "tea")


def test_route_that_changes_meanwhile_is_withheld_too():
    desired = desired_gateway()
    desired.routing.express(NONE, desired.state)
    desired.update(GatewayDelta(routes={TEA: INVALID}))
    assert desired.routing.withholding.withheld == {APPROXIMATE_RULES.name: [TEA]}
    assert shards_with_approximate(desired) == set()
    desired.update(GatewayDelta(routes={TEA: route("tea")}))
    assert desired.routing.withholding.withheld == {}
    desired.update(GatewayDelta(routes={TEA: INVALID}))
    desired.update(GatewayDelta(routes={TEA: None}))
    assert desired.routing.withholding.withheld == {}


def test_request_rules_are_sent_once_pods_understand_them():
    desired = desired_gateway()
    desired.routing.express(frozenset({MANY_RETRIES.name}), desired.state)
    rules = Parameters(paths=Paths(merge_slashes=True))
    desired.update(GatewayDelta(listeners=LISTENERS, parameters=rules))
    assert read(desired, 0).requests is None
    assert desired.routing.withholding.withheld == {REQUEST_RULES.name: []}
    desired.routing.express(ALL, desired.state)
    assert read(desired, 0).requests == wire.RequestRules(merge_slashes=True)
    assert desired.routing.withholding.withheld == {}


def test_withheld_request_rules_are_named_by_what_the_user_gave():
    """A Gateway with shares alone must not state that its forwarding and paths are not in force."""
    desired = desired_gateway()
    desired.update(GatewayDelta(listeners=LISTENERS, parameters=Parameters(shares=SharesParameters(route=10))))
    desired.routing.express(NONE, desired.state)
    assert desired.routing.withholding.withheld == {SHARES.name: []}
    assert read(desired, 0).requests is None
    both = Parameters(shares=SharesParameters(route=10), paths=Paths(merge_slashes=True))
    desired.update(GatewayDelta(listeners=LISTENERS, parameters=both))
    assert desired.routing.withholding.withheld == {REQUEST_RULES.name: [], SHARES.name: []}
    desired.routing.express(ALL - {SHARES.name}, desired.state)
    assert desired.routing.withholding.withheld == {SHARES.name: []}
    assert read(desired, 0).requests == wire.RequestRules(merge_slashes=True)


def test_cache_policies_of_listeners_are_sent_once_pods_understand_them():
    cached = tuple(structs.replace(one, cache=wire.CachePolicy(forced_ttl=1000)) for one in LISTENERS)
    desired = desired_gateway()
    desired.routing.express(NONE, desired.state)
    desired.update(GatewayDelta(listeners=cached))
    assert read(desired, 0).listeners == LISTENERS
    assert desired.routing.withholding.withheld == {CACHE_POLICIES.name: []}
    desired.routing.express(ALL, desired.state)
    assert read(desired, 0).listeners == cached
    assert desired.routing.withholding.withheld == {}
    desired.routing.express(NONE, desired.state)
    assert read(desired, 0).listeners == LISTENERS
