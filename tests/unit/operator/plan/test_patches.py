"""Newest changes beside the index: whoever has the shards from before makes the new ones of them."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from support.builders.plans import plan, route, routes
from varnish_gateway.api import Key
from varnish_gateway.chaperone.feeds.shards import Shelf, read_index, read_patches, read_shard
from varnish_gateway.ir import GatewayDelta, wire
from varnish_gateway.operator.plan.gateway import Plan
from varnish_gateway.operator.plan.patches import MOST_BYTES, MOST_ROUTES, Recent

MANY = 200


class Cluster:
    """What an operator writes, and a chaperone that reads it."""

    def __init__(self) -> None:
        self.plan: Plan = plan(with_routes=routes(0, *(f"r{n}" for n in range(MANY))))
        self.shelf = Shelf()
        self.reads = 0
        self.fresh: bytes | None = None
        self.write()
        self.read()

    def write(self) -> None:
        self.fresh = self.plan.recent.take()
        self.plan.recent.written(self.plan.hashes)

    def read(self) -> None:
        text = self.plan.index()
        index = read_index(text.decode() if text else None, "index")
        self.shelf.put(0, read_shard(self.plan.shards[0].text, 0, "shard", "shop"))
        self.shelf.freshen(read_patches(self.fresh.decode() if self.fresh else None), index, "shop")
        for number in self.shelf.wanting(index):
            self.reads += 1
            self.shelf.put(number, read_shard(self.plan.shards[number].text, number, "shard", "shop"))
        self.shelf.take(index)

    def check(self) -> None:
        for number, shard in self.plan.shards.items():
            assert self.shelf.known(number, shard.hash) is not None, number


def test_a_change_needs_no_shard_to_be_read():
    cluster = Cluster()
    read = cluster.reads
    for change in (routes(7, "r1"), routes(7, "new"), {Key("HTTPRoute", "shop", "r2"): None}):
        cluster.plan.take(GatewayDelta(routes=change))
        cluster.write()
        cluster.read()
        cluster.check()
    assert cluster.reads == read


def test_who_missed_a_change_reads_the_shard():
    cluster = Cluster()
    read = cluster.reads
    for created in (1, 2):
        cluster.plan.take(GatewayDelta(routes=routes(created, "r1")))
        cluster.write()
    cluster.read()
    cluster.check()
    assert cluster.reads == read + 1


def test_a_write_that_failed_leaves_shards_to_be_read():
    cluster = Cluster()
    cluster.plan.take(GatewayDelta(routes=routes(1, "r1")))
    cluster.plan.recent.take()
    cluster.plan.take(GatewayDelta(routes=routes(2, "r1")))
    assert cluster.plan.recent.take() is None


def test_many_changes_at_once_are_not_told():
    cluster = Cluster()
    cluster.plan.take(GatewayDelta(routes=routes(1, *(f"r{n}" for n in range(MOST_ROUTES + 1)))))
    assert cluster.plan.recent.take() is None


def test_large_changes_are_not_told():
    """They have to fit into the ConfigMap of the index, beside the VCL."""
    recent = Recent()
    recent.written(("", "before"))
    recent.add(1, "shop/large", route("x" * MOST_BYTES))
    assert recent.take() is None
    recent.written(("", "then"))
    recent.add(1, "shop/small", route("small"))
    told = recent.take()
    assert told is not None
    assert len(told) < MOST_BYTES


def test_who_never_writes_keeps_little():
    """An operator that does not lead, or a Gateway whose class is at fault."""
    recent = Recent()
    recent.written(("", "before"))
    for number in range(10_000):
        recent.add(1, f"shop/r{number}", None)
    assert len(recent._changed) <= MOST_ROUTES + 1
    assert recent.take() is None
    recent.written(("", "then"))
    recent.add(1, "shop/a", None)
    assert recent.take() is not None


def test_a_gateway_of_one_shard_has_none():
    made = plan(with_routes=routes(0, "a"))
    made.recent.written(made.hashes)
    made.take(GatewayDelta(routes=routes(1, "a")))
    assert made.recent.take() is None


def test_what_can_not_be_read_is_as_if_it_were_not_there():
    assert read_patches("{half") == ()
    assert read_patches(None) == ()


def test_nothing_written_means_nothing_to_tell():
    recent = Recent()
    recent.add(1, "shop/a", None)
    assert recent.take() is None


@given(st.lists(st.tuples(st.integers(0, 260), st.integers(0, 3), st.booleans(), st.booleans()), max_size=60))
def test_a_reader_always_ends_with_what_is_written(steps):
    cluster = Cluster()
    for number, created, writes, reads in steps:
        gone = created == 3
        key = Key("HTTPRoute", "shop", f"r{number}")
        cluster.plan.take(GatewayDelta(routes={key: None if gone else route(f"r{number}", created)}))
        if writes:
            cluster.write()
        if writes and reads:
            cluster.read()
    cluster.write()
    cluster.read()
    cluster.check()
    assert msgspec.json.decode(cluster.plan.shards[0].text, type=wire.Routing).shard == 0
