"""A cache that compares changed shards alone has the same result as one that compares all of them."""

from hypothesis import given, settings
from hypothesis import strategies as st

from varnish_gateway import errors
from varnish_gateway.chaperone.feeds.shards import RoutingShard, ShardCache
from varnish_gateway.ir import wire

COUNTS = st.sampled_from([2, 3])
EDITIONS = st.integers(0, 1)


def shard(number: int, shards: int, edition: int) -> RoutingShard:
    digest = f"{number} of {shards}, edition {edition}"
    return RoutingShard(digest.encode(), digest, shards, frozenset({f"n{(number + edition) % 3}"}))


@st.composite
def steps(draw: st.DrawFn) -> tuple[wire.Index, dict[int, RoutingShard]]:
    """Draw an index and the shards that come with it: some are newer, of another index, or not there."""
    shards = draw(COUNTS)
    digests = ("", *(shard(number, shards, draw(EDITIONS)).hash for number in range(1, shards)))
    numbers = {0, *draw(st.sets(st.integers(0, shards - 1)))}
    came = {number: shard(number, draw(st.just(shards) | COUNTS), draw(EDITIONS)) for number in numbers}
    return wire.Index(version=2, shards=digests), came


def answers(cache: ShardCache, index: wire.Index) -> tuple[object, ...]:
    """Return every answer of a cache about an index, which it applies if it can."""
    missing = cache.missing(index)
    try:
        return missing, cache.new_namespaces(index), cache.update(index), cache.namespaces
    except errors.BadDocument as error:
        return missing, str(error), cache.namespaces


@settings(max_examples=300)
@given(st.lists(steps(), max_size=8))
def test_result_depends_on_the_serving_shards_and_not_on_history(history):
    cache = ShardCache()
    serving: dict[int, RoutingShard] = {}
    pending: dict[int, RoutingShard] = {}
    for index, came in history:
        pending |= came
        fresh = ShardCache(serving)
        for number, one in came.items():
            cache.put(number, one)
        for number, one in pending.items():
            fresh.put(number, one)
        given_answers = answers(cache, index)
        assert given_answers == answers(fresh, index)
        if len(given_answers) == 4:  # the index was applied
            for number, content in given_answers[2].items():
                serving.pop(number, None)
                if content is not None:
                    serving[number] = next(one for one in pending.values() if one.content == content)
            pending = {}
