"""Shards: what changed and nothing else, the same content whatever the history."""

from zlib import crc32

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from support.builders.meeting_names import MEETING
from varnish_gateway.api import Key
from varnish_gateway.api.varnish import (
    Forwarding,
    InvalidationMethods,
    InvalidationParameters,
    Parameters,
    Paths,
    SharesParameters,
)
from varnish_gateway.emit.routing import (
    BYTES_PER_SHARD,
    ENOUGH_SHARDS,
    PER_SHARD,
    STORABLE_BYTES,
    Shards,
    patched,
    request_rules,
    shard_of,
)
from varnish_gateway.ir import wire


def route(name: str, created: int = 0) -> wire.Route:
    return wire.Route(
        namespace="default",
        name=name,
        created=created,
        attachments=(wire.Attachment(listener="http"),),
        rules=(wire.Rule(backends=(wire.Backend(service="default/tea", port=80),)),),
    )


def key(name: str) -> Key:
    return Key("HTTPRoute", "default", name)


def routes(*names: str) -> dict[Key, wire.Route | None]:
    return {key(name): route(name) for name in names}


def decoded(shards: dict[int, bytes]) -> dict[str, wire.Route]:
    """Return every route of the shards, each seen in the shard that it belongs to."""
    found = {}
    for number, encoded in shards.items():
        shard = msgspec.json.decode(encoded, type=wire.Routing)
        assert (shard.shard, shard.shards) == (number, len(shards))
        for one in shard.routes:
            assert shard_of(one.namespace, one.name, shard.shards) == number
            found[one.name] = one
    return found


def test_a_small_gateway_is_one_shard_with_its_listeners():
    listener = wire.Listener(name="http", socket="http-80", port=80)
    changed = Shards().update(listeners=(listener,), routes=routes("tea"))
    assert list(changed) == [0]
    shard = msgspec.json.decode(changed[0], type=wire.Routing)
    assert shard == wire.Routing(version=2, listeners=(listener,), routes=(route("tea"),))


def test_an_empty_gateway_is_a_valid_shard():
    assert msgspec.json.decode(Shards().all()[0], type=wire.Routing) == wire.Routing(version=2)


def test_unchanged_input_changes_no_shard():
    shards = Shards()
    shards.update(listeners=(), routes=routes("tea"))
    assert shards.update(listeners=(), routes=routes("tea")) == {}


def test_one_change_touches_one_shard():
    shards = Shards()
    shards.update(routes=routes(*(f"r{n}" for n in range(1000))))
    changed = shards.update(routes={key("r7"): route("r7", created=5)})
    assert list(changed) == [shard_of("default", "r7", 16)]


def test_the_first_of_several_shards_has_the_listeners_alone():
    listener = wire.Listener(name="http", socket="http-80", port=80)
    shards = Shards()
    shards.update(listeners=(listener,), routes=routes(*(f"r{n}" for n in range(1000))))
    first = msgspec.json.decode(shards.all()[0], type=wire.Routing)
    assert (first.listeners, first.routes) == ((listener,), ())
    assert set(decoded(shards.all())) == {f"r{n}" for n in range(1000)}


def test_a_patch_makes_the_very_text_that_the_writer_has():
    shards = Shards()
    shards.update(routes=routes("a", "b", "c"))
    before = shards.all()[0]
    shards.update(routes={key("b"): None, key("c"): route("c", created=7), key("d"): route("d")})
    patch = wire.Patch(shard=0, before="", routes=(route("c", created=7), route("d")), gone=("default/b",))
    assert patched(before, patch) == shards.all()[0]
    everything = wire.Patch(shard=0, before="", gone=("default/a", "default/c", "default/d"))
    shards.update(routes=dict.fromkeys([key("a"), key("c"), key("d")]))
    assert patched(patched(before, patch), everything) == shards.all()[0]
    assert patched(shards.all()[0], wire.Patch(shard=0, before="", routes=(route("a"),))) != shards.all()[0]


def test_deleted_route_leaves_its_shard():
    shards = Shards()
    shards.update(routes=routes("tea", "coffee"))
    shards.update(routes={key("tea"): None})
    assert set(decoded(shards.all())) == {"coffee"}


def test_removing_an_unknown_route_changes_nothing():
    assert Shards().update(routes={key("tea"): None}) == {}


def test_surplus_shards_are_returned_as_deleted():
    shards = Shards()
    many = routes(*(f"r{n}" for n in range(PER_SHARD * 2 + 1)))
    assert len(shards.update(routes=many)) == 4
    changed = shards.update(routes=dict.fromkeys(many))
    assert [number for number, encoded in changed.items() if encoded is None] == [1, 2, 3]


def test_a_route_at_the_boundary_does_not_reshuffle_everything():
    shards = Shards()
    shards.update(routes=routes(*(f"r{n}" for n in range(PER_SHARD + 1))))
    assert len(shards.update(routes={key("r0"): None})) == 1
    assert len(shards.update(routes=routes("r0"))) == 1


def test_pod_of_twenty_thousand_routes_reads_few_shards():
    shards = Shards()
    shards.update(routes=routes(*(f"r{n}" for n in range(20_000))))
    assert len(shards) == ENOUGH_SHARDS


def test_large_routes_get_more_shards_so_that_each_fits_into_a_config_map():
    shards = Shards()
    rule = wire.Rule(matches=(wire.Match(path=wire.PathMatch("exact", "/" + "x" * 90_000)),))
    large = {key(f"r{n}"): replace(route(f"r{n}"), rules=(rule,)) for n in range(24)}
    changed = shards.update(routes=large)
    assert len(shards) > 1
    assert all(len(text) < BYTES_PER_SHARD + 1000 for text in changed.values())
    assert len(shards.update(routes={key("r0"): None})) == 1, "it does not shrink as long as the bytes need the shards"
    shards.update(routes=dict.fromkeys(large))
    assert len(shards) == 1


def listeners_of(size: int) -> tuple[wire.Listener, ...]:
    return tuple(wire.Listener(name="x" * 900 + f"{n:04}", socket="http-80", port=80) for n in range(size // 1000))


def test_routes_leave_the_shard_of_listeners_where_both_are_too_large():
    """Beside them lies main.vcl with up to 400,000 bytes of user VCL, and a ConfigMap takes 1 MiB."""
    shards = Shards()
    shards.update(routes=large_routes("a", "b", "c"))
    assert len(shards) == 1
    grown = shards.update(listeners=listeners_of(300_000), routes={})
    assert (len(shards), grown.keys()) == (2, {0, 1})
    assert len(grown[0]) < BYTES_PER_SHARD
    assert b'"routes"' not in grown[0]
    assert len(shards.resize(1)) == 2, "it doesn't fit into the number in use"
    fewer = shards.update(routes={key("a"): None})
    assert len(shards) == 2, "no back and forth"
    assert fewer.keys() == {1}
    shards.update(listeners=(), routes=dict.fromkeys(map(key, "bc")))
    assert len(shards) == 1


def large_routes(*names: str) -> dict[Key, wire.Route | None]:
    rule = wire.Rule(matches=(wire.Match(path=wire.PathMatch("exact", "/" + "x" * 100_000)),))
    return {key(name): replace(route(name), rules=(rule,)) for name in names}


def test_large_routes_whose_names_meet_do_not_multiply_shards():
    """Each change of any route would move all of them, and each pod that starts would read thousands of shards."""
    assert len({crc32(f"default/{name}".encode()) for name in MEETING}) == 1
    shards = Shards()
    shards.update(routes=large_routes(*MEETING[:5]))
    assert len(shards) <= ENOUGH_SHARDS


def test_routes_whose_names_meet_in_another_tenants_shard_do_not_keep_it_from_being_stored():
    shards = Shards(ENOUGH_SHARDS, most_bytes=STORABLE_BYTES)
    shards.update(routes=large_routes(*MEETING))
    place = shard_of("default", MEETING[0], len(shards))
    name = next(f"web{n}" for n in range(10_000) if shard_of("shop", f"web{n}", len(shards)) == place)
    victim = replace(route(name), namespace="shop")
    changed = shards.update(routes={Key("HTTPRoute", "shop", name): victim})
    assert changed.keys() == {place}
    assert len(changed[place]) < STORABLE_BYTES + 1000
    served = msgspec.json.decode(changed[place], type=wire.Routing).routes
    assert victim in served
    assert {f"{one.namespace}/{one.name}" for one in served}.isdisjoint(shards.left_out)
    assert len(served) + len(shards.left_out) == len(MEETING) + 1
    shards.update(routes=dict.fromkeys(map(key, MEETING[4:])))
    assert shards.left_out == ()


def test_route_that_was_left_out_of_a_shard_that_is_gone_is_forgotten():
    shards = Shards(most_bytes=STORABLE_BYTES)
    shards.update(routes=large_routes(*MEETING))
    assert len(shards) > 1
    assert shards.left_out
    shards.update(routes=dict.fromkeys(map(key, MEETING)))
    assert (len(shards), shards.left_out) == (1, ())


def test_shard_of_any_size_is_complete_where_nothing_limits_it():
    shards = Shards(ENOUGH_SHARDS)
    changed = shards.update(routes=large_routes(*MEETING))
    assert (decoded(shards.all()).keys(), shards.left_out) == (set(MEETING), ())
    assert len(changed) == 1


def test_single_large_route_does_not_multiply_shards():
    shards = Shards()
    rule = wire.Rule(matches=(wire.Match(path=wire.PathMatch("exact", "/" + "x" * 2 * BYTES_PER_SHARD)),))
    shards.update(routes={key("r"): replace(route("r"), rules=(rule,))})
    assert len(shards) == 1


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 3)), max_size=400))
def test_newest_value_of_each_route_is_kept(steps):
    shards, expected, published = Shards(), {}, dict(Shards().all())
    for number, kind in steps:
        name = f"r{number}"
        value = route(name, created=kind) if kind else None
        changed = shards.update(routes={key(name): value})
        published.update(changed)
        published = {n: encoded for n, encoded in published.items() if encoded is not None}
        expected[name] = value
    assert decoded(published) == {name: value for name, value in expected.items() if value}
    assert published == shards.all()


def test_request_rules_travel_with_the_first_shard_and_only_where_they_say_something():
    shards = Shards()
    assert shards.update(requests=request_rules(Parameters()), routes={}) == {}
    parameters = Parameters(forwarding=Forwarding(trusted_hops=0), paths=Paths(merge_slashes=True, reject=("..;",)))
    (text,) = shards.update(requests=request_rules(parameters), routes={}).values()
    found = msgspec.json.decode(text or b"", type=wire.Routing).requests
    assert found == wire.RequestRules(trusted_hops=0, merge_slashes=True, reject=("..;",))
    assert shards.update(requests=request_rules(None), routes={}) == {}
    (text,) = shards.update(requests=request_rules(Parameters()), routes={}).values()
    assert b"requests" not in (text or b"")


def test_addresses_that_may_purge_travel_only_where_there_are_any():
    """Pods that don't know the field read a shard without it."""
    assert Shards().update(requests=request_rules(Parameters()), routes={}) == {}
    methods = InvalidationMethods(allowed_source_ranges=("10.0.0.0/8",))
    parameters = Parameters(invalidation=InvalidationParameters(methods=methods))
    (text,) = Shards().update(requests=request_rules(parameters), routes={}).values()
    assert b'"requests":{"purgeRanges":["10.0.0.0/8"]}' in (text or b"")


def test_shares_travel_only_where_they_differ_from_the_defaults():
    """Pods that don't know the field read a shard without it."""
    defaults = SharesParameters(namespace=75, route=50, backend=70, web_sockets=25)
    assert Shards().update(requests=request_rules(Parameters(shares=defaults)), routes={}) == {}
    parameters = Parameters(shares=SharesParameters(route=80, backend_connections=500))
    (text,) = Shards().update(requests=request_rules(parameters), routes={}).values()
    assert b'"requests":{"shares":{"route":80,"backendConnections":500}}' in (text or b"")
