import json

import msgspec
import pytest

from varnish_gateway import errors
from varnish_gateway.chaperone.feeds.shards import ShardCache, check_fits, read_index, read_shard
from varnish_gateway.emit.routing import content_hash
from varnish_gateway.ir import wire


def text(number, shards, *services, **more):
    """Return a shard whose routes ask for these Services."""
    backends = tuple(wire.Backend(service=service, port=80, **more) for service in services)
    route = wire.Route(
        namespace="n",
        name=f"r{number}",
        attachments=(wire.Attachment(listener="http"),),
        rules=(wire.Rule(backends=backends),),
    )
    return msgspec.json.encode(wire.Routing(version=2, shard=number, shards=shards, routes=(route,)))


def shard(number, shards, *services):
    return read_shard(text(number, shards, *services), number, "shard", "n")


def index(*shards):
    """Return the index of these shards, the first of which is shard 0."""
    return wire.Index(version=2, shards=("", *(each.hash for each in shards[1:])))


def serving(*shards):
    return ShardCache(dict(enumerate(shards)))


def test_shard_has_the_namespaces_of_its_services():
    assert shard(0, 1, "a/tea", "b/coffee", "a/milk").namespaces == {"a", "b"}


def test_an_external_name_needs_no_namespace():
    content = text(0, 1, "a/tea", external="tea.example.com")
    assert read_shard(content, 0, "shard", "n").namespaces == frozenset()


def test_version_1_is_a_shard_too():
    old = json.dumps({"version": 1, "vhosts": {"x.example.com": {"service": "tea", "port": 80}}}).encode()
    found = read_shard(old, 0, "shard", "own")
    assert (found.shards, found.namespaces, found.hash) == (1, {"own"}, content_hash(old))


@pytest.mark.parametrize("content", [b"", b"{half", b'{"version": 3}', b'{"version": 2, "surprise": 1}', b"[]"])
def test_text_that_is_no_shard_is_rejected_by_name(content):
    with pytest.raises(errors.BadDocument, match="here"):
        read_shard(content, 0, "here", "n")


def test_shard_with_another_number_is_rejected():
    with pytest.raises(errors.BadDocument, match="it is shard 1, where shard 2 is expected"):
        read_shard(text(1, 4), 2, "here", "n")


def test_without_an_index_there_is_one_shard():
    assert read_index(None, "here").shards == ("",)


@pytest.mark.parametrize("content", ["", "{", '{"version": 1, "shards": [""]}', '{"version": 2, "shards": []}'])
def test_text_that_is_no_index_is_rejected_by_name(content):
    with pytest.raises(errors.BadDocument, match="here"):
        read_index(content, "here")


def test_only_changed_shards_are_fetched_and_served():
    before = [shard(number, 4, "a/tea") for number in range(4)]
    after = [before[0], before[1], shard(2, 4, "a/coffee"), before[3]]
    cache = serving(*before)
    assert cache.missing(index(*before)) == []
    assert cache.missing(index(*after)) == [2]
    cache.put(2, after[2])
    assert cache.missing(index(*after)) == []
    assert cache.update(index(*after)) == {2: after[2].content}
    assert cache.update(index(*after)) == {}


def test_shard_0_comes_without_a_hash():
    cache = serving(shard(0, 1, "a/tea"))
    new = shard(0, 1, "a/coffee")
    assert cache.known(0, new.hash) is None
    cache.put(0, new)
    assert cache.known(0, new.hash) == new
    assert cache.update(read_index(None, "")) == {0: new.content}
    assert not cache.is_ahead


def test_shard_newer_than_the_index_serves():
    before = [shard(0, 2), shard(1, 2, "a/tea")]
    named, newer = shard(1, 2, "a/coffee"), shard(1, 2, "a/milk")
    cache = serving(*before)
    cache.put(1, newer)
    assert cache.update(index(before[0], named)) == {1: newer.content}
    assert cache.is_ahead
    assert cache.missing(index(before[0], newer)) == []
    assert cache.update(index(before[0], newer)) == {}
    assert not cache.is_ahead


def test_new_number_of_shards_waits_until_all_exist():
    before = [shard(0, 2, "a/x"), shard(1, 2, "a/x")]
    after = [shard(number, 4, "a/x") for number in range(4)]
    cache = serving(*before)
    assert cache.missing(index(*after)) == [1, 2, 3]
    for number in (0, 2, 3):
        cache.put(number, after[number])
    with pytest.raises(errors.BadDocument, match="shard 1 of 4 does not exist yet"):
        cache.update(index(*after))
    cache.put(1, after[1])
    assert cache.update(index(*after)) == {number: each.content for number, each in enumerate(after)}


def test_fewer_shards_drop_the_rest():
    cache = serving(*(shard(number, 4, "a/x") for number in range(4)))
    after = [shard(0, 1, "a/y")]
    cache.put(0, after[0])
    assert cache.update(index(*after)) == {0: after[0].content, 1: None, 2: None, 3: None}


def test_shard_of_a_later_index_does_not_replace_the_serving_one():
    before = [shard(0, 2), shard(1, 2, "a/x")]
    cache = serving(*before)
    cache.put(1, shard(1, 4, "a/y"))
    assert cache.update(index(before[0], shard(1, 2, "a/z"))) == {}


def test_namespaces_come_and_go_with_the_shards_that_name_them():
    cache = serving(shard(0, 2, "a/x", "b/x"), shard(1, 2, "b/x"))
    assert cache.namespaces == {"a", "b"}
    after = [shard(0, 2, "c/x", "b/x"), shard(1, 2, "b/x")]
    cache.put(0, after[0])
    assert cache.new_namespaces(index(*after)) == {"c"}
    assert cache.namespaces == {"a", "b"}
    cache.update(index(*after))
    assert cache.namespaces == {"b", "c"}
    assert cache.new_namespaces(index(*after)) == frozenset()


def test_shard_of_another_index_is_reported():
    check_fits(shard(0, 2), wire.Index(version=2, shards=("", "x")), "here")
    with pytest.raises(errors.BadDocument, match="here: it is one of 2 shards, and the index has 1"):
        check_fits(shard(0, 2), read_index(None, ""), "here")
