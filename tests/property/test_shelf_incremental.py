"""A shelf that looks at changed shards alone comes to what one that looks at all of them comes to."""

from hypothesis import given, settings
from hypothesis import strategies as st

from varnish_gateway import errors
from varnish_gateway.chaperone.feeds.shards import Shard, Shelf
from varnish_gateway.ir import wire

COUNTS = st.sampled_from([2, 3])
EDITIONS = st.integers(0, 1)


def shard(number: int, shards: int, edition: int) -> Shard:
    digest = f"{number} of {shards}, edition {edition}"
    return Shard(digest.encode(), digest, shards, frozenset({f"n{(number + edition) % 3}"}))


@st.composite
def steps(draw: st.DrawFn) -> tuple[wire.Index, dict[int, Shard]]:
    """Draw an index and the shards that come with it: some are newer, of another index, or not there."""
    shards = draw(COUNTS)
    digests = ("", *(shard(number, shards, draw(EDITIONS)).hash for number in range(1, shards)))
    numbers = {0, *draw(st.sets(st.integers(0, shards - 1)))}
    came = {number: shard(number, draw(st.just(shards) | COUNTS), draw(EDITIONS)) for number in numbers}
    return wire.Index(version=2, shards=digests), came


def told(shelf: Shelf, index: wire.Index) -> tuple[object, ...]:
    """Return all that a shelf says about an index, which it takes if it can."""
    wanting = shelf.wanting(index)
    try:
        return wanting, shelf.arriving(index), shelf.take(index), shelf.namespaces
    except errors.BadDocument as error:
        return wanting, str(error), shelf.namespaces


@settings(max_examples=300)
@given(st.lists(steps(), max_size=8))
def test_history_makes_no_difference(history):
    shelf = Shelf()
    for index, came in history:
        for number, one in came.items():
            shelf.put(number, one)
        fresh = Shelf(shelf._serving)
        fresh._fresh = dict(shelf._fresh)
        assert told(shelf, index) == told(fresh, index)
        assert shelf._serving == fresh._serving
