import pytest

from varnish_gateway.emit.sharding import ShardedMap, ShardRules, shard_of

RULES = ShardRules(grow_above=4, shrink_below=1)


def names(count):
    return [f"n/s{number}" for number in range(count)]


def members(sharded):
    return {name: value for shard in range(len(sharded)) for name, value in sharded[shard].items()}


def test_every_value_is_in_the_shard_of_its_name():
    sharded = ShardedMap(RULES)
    sharded.update(dict.fromkeys(names(40), 1))
    assert len(sharded) == 16
    assert members(sharded) == dict.fromkeys(names(40), 1)
    assert all(shard_of(name, 16) == shard for shard in range(16) for name in sharded[shard])


def test_value_that_oscillates_at_the_boundary_moves_nothing():
    sharded = ShardedMap(RULES)
    sharded.update(dict.fromkeys(names(5), 1))
    assert len(sharded) == 2
    for _ in range(3):
        assert len(sharded.update({"n/s4": None})) == 1
        assert len(sharded.update({"n/s4": 1})) == 1
    assert len(sharded) == 2


def test_shards_halve_when_they_are_far_from_full():
    sharded = ShardedMap(RULES)
    sharded.update(dict.fromkeys(names(40), 1))
    assert sharded.update(dict.fromkeys(names(39))) == {0}
    assert members(sharded) == {"n/s39": 1}


def test_unchanged_value_touches_no_shard():
    sharded = ShardedMap(RULES)
    assert sharded.update({"a": 1}) == {0}
    assert sharded.update({"a": 1, "b": None}) == set()


def test_shard_of_several_large_values_is_split():
    sharded = ShardedMap(ShardRules(grow_above=100, shrink_below=1, most_bytes=10), size=len)
    sharded.update(dict.fromkeys(names(3), b"12345678"))
    assert all(len(sharded[shard]) <= 1 for shard in range(len(sharded)))


def test_large_value_alone_is_not_split_beyond_the_most_shards():
    sharded = ShardedMap(ShardRules(grow_above=100, shrink_below=1, most_bytes=1, most_shards=4), size=len)
    sharded.update(dict.fromkeys(names(20), b"12345678"))
    assert len(sharded) == 4


def test_large_values_keep_shards_that_their_number_would_not():
    sharded = ShardedMap(ShardRules(grow_above=1, shrink_below=1, most_bytes=100), size=len)
    sharded.update(dict.fromkeys(names(8), b"x" * 30))
    assert len(sharded.update(dict.fromkeys(names(4)))) < len(sharded) == 8


@pytest.mark.parametrize(("shards", "first"), [(1, {0}), (4, {1, 2, 3})])
def test_spared_first_shard_stays_empty_beside_others(shards, first):
    assert {shard_of(name, shards, spare_first=True) for name in names(50)} == first


def test_resize_grows_beyond_the_asked_number_where_values_do_not_fit():
    sharded = ShardedMap(RULES)
    sharded.update(dict.fromkeys(names(16), 1))
    sharded.resize(1)
    assert len(sharded) == 4
    sharded.resize(8)
    assert len(sharded) == 8


def test_shards_become_fuller_once_there_are_enough():
    sharded = ShardedMap(ShardRules(grow_above=4, shrink_below=1, most_bytes=100, enough=8), size=len)
    sharded.update(dict.fromkeys(names(100), b""))
    assert len(sharded) == 8
    sharded.update(dict.fromkeys(names(100), b"0123456789"))
    assert len(sharded) > 8, "bytes still count"


def test_more_shards_than_enough_stay_where_they_are_in_use():
    """Another number would move every value."""
    sharded = ShardedMap(ShardRules(grow_above=4, shrink_below=1, enough=8), 32)
    assert len(sharded.update(dict.fromkeys(names(40), 1))) < 32
    assert len(sharded) == 32
