"""Patches beside the index: a chaperone that holds the previous shards patches them instead of reading."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from support.builders.desired import desired_gateway, route, routes
from varnish_gateway.api import Key
from varnish_gateway.chaperone.feeds.shards import ShardCache, read_index, read_patches, read_shard
from varnish_gateway.ir import GatewayDelta, wire
from varnish_gateway.operator.plan.gateway import DesiredGateway
from varnish_gateway.operator.plan.patches import MOST_BYTES, MOST_ROUTES, RoutePatches

MANY = 200


class Cluster:
    """An operator that writes routing, and a chaperone that reads it."""

    def __init__(self) -> None:
        self.desired: DesiredGateway = desired_gateway(with_routes=routes(0, *(f"r{n}" for n in range(MANY))))
        self.cache = ShardCache()
        self.reads = 0
        self.fresh: bytes | None = None
        self.write()
        self.read()

    def write(self) -> None:
        self.fresh = self.desired.routing.drain_patches()
        self.desired.routing.on_index_written(self.desired.routing.hashes)

    def read(self) -> None:
        text = self.desired.routing.index
        index = read_index(text.decode() if text else None, "index")
        self.cache.put(0, read_shard(self.desired.routing.shards[0].text, 0, "shard", "shop"))
        self.cache.patch(read_patches(self.fresh.decode() if self.fresh else None), index, "shop")
        for number in self.cache.missing(index):
            self.reads += 1
            self.cache.put(number, read_shard(self.desired.routing.shards[number].text, number, "shard", "shop"))
        self.cache.update(index)

    def check(self) -> None:
        for number, shard in self.desired.routing.shards.items():
            assert self.cache.known(number, shard.hash) is not None, number


def test_chaperone_applies_patches_without_reading_shards():
    cluster = Cluster()
    read = cluster.reads
    for change in (routes(7, "r1"), routes(7, "new"), {Key("HTTPRoute", "shop", "r2"): None}):
        cluster.desired.update(GatewayDelta(routes=change))
        cluster.write()
        cluster.read()
        cluster.check()
    assert cluster.reads == read


def test_chaperone_that_missed_a_patch_reads_the_shard():
    cluster = Cluster()
    read = cluster.reads
    for created in (1, 2):
        cluster.desired.update(GatewayDelta(routes=routes(created, "r1")))
        cluster.write()
    cluster.read()
    cluster.check()
    assert cluster.reads == read + 1


def test_failed_write_publishes_no_patches_next_time():
    cluster = Cluster()
    cluster.desired.update(GatewayDelta(routes=routes(1, "r1")))
    cluster.desired.routing.drain_patches()
    cluster.desired.update(GatewayDelta(routes=routes(2, "r1")))
    assert cluster.desired.routing.drain_patches() is None


def test_too_many_changed_routes_publish_no_patches():
    cluster = Cluster()
    cluster.desired.update(GatewayDelta(routes=routes(1, *(f"r{n}" for n in range(MOST_ROUTES + 1)))))
    assert cluster.desired.routing.drain_patches() is None


def test_patches_larger_than_the_limit_are_not_published():
    """They have to fit into the ConfigMap of the index, beside the VCL."""
    patches = RoutePatches()
    patches.on_written(("", "before"))
    patches.add(1, "shop/large", route("x" * MOST_BYTES))
    assert patches.drain() is None
    patches.on_written(("", "then"))
    patches.add(1, "shop/small", route("small"))
    drained = patches.drain()
    assert drained is not None
    assert len(drained) < MOST_BYTES


def test_standby_keeps_a_bounded_number_of_patches():
    """A standby, or a Gateway whose class is invalid, never drains them."""
    patches = RoutePatches()
    patches.on_written(("", "before"))
    for number in range(10_000):
        patches.add(1, f"shop/r{number}", None)
    assert len(patches) <= MOST_ROUTES + 1
    assert patches.drain() is None
    patches.on_written(("", "then"))
    patches.add(1, "shop/a", None)
    assert patches.drain() is not None


def test_gateway_of_one_shard_has_no_patches():
    desired = desired_gateway(with_routes=routes(0, "a"))
    desired.routing.on_index_written(desired.routing.hashes)
    desired.update(GatewayDelta(routes=routes(1, "a")))
    assert desired.routing.drain_patches() is None


def test_unreadable_patches_are_ignored():
    assert read_patches("{half") == ()
    assert read_patches(None) == ()


def test_there_are_no_patches_before_the_first_index_is_written():
    patches = RoutePatches()
    patches.add(1, "shop/a", None)
    assert patches.drain() is None


@given(st.lists(st.tuples(st.integers(0, 260), st.integers(0, 3), st.booleans(), st.booleans()), max_size=60))
def test_chaperone_always_holds_the_shards_that_were_written(steps):
    cluster = Cluster()
    for number, created, writes, reads in steps:
        gone = created == 3
        key = Key("HTTPRoute", "shop", f"r{number}")
        cluster.desired.update(GatewayDelta(routes={key: None if gone else route(f"r{number}", created)}))
        if writes:
            cluster.write()
        if writes and reads:
            cluster.read()
    cluster.write()
    cluster.read()
    cluster.check()
    assert msgspec.json.decode(cluster.desired.routing.shards[0].text, type=wire.Routing).shard == 0
