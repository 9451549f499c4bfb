import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from varnish_gateway.api import key_of
from varnish_gateway.dataplane.ghost.join import ANY_PORT, Join, known_addresses, needs_of, unserved_reason
from varnish_gateway.dataplane.ghost.unserved import UnservedPools
from varnish_gateway.decoding import decode
from varnish_gateway.ir import wire


def shard(*backends):
    route = wire.Route(
        namespace="n",
        name="r",
        attachments=(wire.Attachment(listener="l"),),
        rules=(wire.Rule(backends=backends), wire.Rule(redirect=wire.Redirect())),
    )
    return msgspec.json.encode(wire.Routing(version=2, routes=(route,)))


def backend(service="n/tea", port=80, **more):
    return wire.Backend(service=service, port=port, **more)


def piece(*endpoints, name="tea-1", service="tea", ports=(("", 8080),), kind="IPv4"):
    labels = {"kubernetes.io/service-name": service} if service else {}
    document = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": "n", "labels": labels},
        "addressType": kind,
        "ports": [{"name": port_name, "port": port} for port_name, port in ports],
        "endpoints": [endpoint if isinstance(endpoint, dict) else {"addresses": [endpoint]} for endpoint in endpoints],
    }
    return decode(document)


def state(address, **conditions):
    return {"addresses": [address], "conditions": conditions}


def slices(*pieces):
    return {key_of(piece): piece for piece in pieces}


def joined(*pieces, **more):
    """Return the addresses of the pool of Service tea."""
    pools = Join().update({0: shard(backend(**more))}, slices(*pieces))
    (pool,) = pools.values()
    return [f"{endpoint.address} {endpoint.port}" for endpoint in pool]


def test_a_shard_names_its_needs():
    needs = needs_of(shard(backend(), backend(port=81, port_name="web"), wire.Backend(status=500)))
    assert {(need.pool, need.port_name) for need in needs} == {("n/tea:80", ""), ("n/tea:81", "web")}


def test_slices_are_merged_sorted_and_each_endpoint_occurs_once():
    assert joined(piece("10.0.0.2", "10.0.0.1"), piece("10.0.0.1", "10.0.0.3", name="tea-2")) == [
        "10.0.0.1 8080",
        "10.0.0.2 8080",
        "10.0.0.3 8080",
    ]


def test_addresses_of_both_families_serve():
    assert joined(piece("10.0.0.1"), piece("fd00::1", name="v6", kind="IPv6")) == ["10.0.0.1 8080", "fd00::1 8080"]


def test_the_port_is_found_by_its_name():
    ports = (("web", 8080), ("admin", 9090))
    assert joined(piece("10.0.0.1", ports=ports), port_name="admin") == ["10.0.0.1 9090"]
    assert joined(piece("10.0.0.1", ports=ports)) == []


def test_version_1_finds_a_port_by_its_number_else_the_only_one():
    ports = (("web", 80), ("admin", 9090))
    assert joined(piece("10.0.0.1", ports=ports), port_name=ANY_PORT) == ["10.0.0.1 80"]
    assert joined(piece("10.0.0.1", ports=(("web", 8080),)), port_name=ANY_PORT) == ["10.0.0.1 8080"]
    assert joined(piece("10.0.0.1", ports=(("a", 1), ("b", 2))), port_name=ANY_PORT) == []


@pytest.mark.parametrize(
    ("endpoints", "serving"),
    [
        ([state("10.0.0.1", ready=True), state("10.0.0.2", ready=False)], ["10.0.0.1 8080"]),
        ([state("10.0.0.1", ready=False, serving=True, terminating=True), state("10.0.0.2")], ["10.0.0.2 8080"]),
        ([state("10.0.0.1", ready=False, serving=True, terminating=True)], ["10.0.0.1 8080"]),
        ([state("10.0.0.1", ready=False, serving=False, terminating=True)], []),
        ([state("10.0.0.1", ready=False, serving=True)], []),
        ([state("10.0.0.1", ready=False)], []),
    ],
)
def test_ready_endpoints_serve_else_those_that_serve_while_terminating(endpoints, serving):
    assert joined(piece(*endpoints)) == serving


def test_slice_that_serves_nothing_has_a_reason():
    assert joined(piece("tea.example.com", kind="FQDN")) == []
    assert "FQDN is not served" in unserved_reason(piece("x", kind="FQDN"))
    assert "service-name" in unserved_reason(piece("10.0.0.1", service=None))
    assert unserved_reason(piece("10.0.0.1")) is None


@pytest.mark.parametrize(
    ("host", "addresses"),
    [
        ("localhost", ("127.0.0.1",)),
        ("10.0.0.1", ("10.0.0.1",)),
        ("[::1]", ("::1",)),
        ("example.com", None),
    ],
)
def test_some_hosts_need_no_resolver(host, addresses):
    assert known_addresses(host) == addresses


def test_external_name_needs_a_resolver_and_is_forgotten_when_unused():
    join = Join()
    assert join.update({0: shard(backend(external="example.com"))}) == {"n/tea:80": ()}
    assert join.external_hosts == {"example.com"}
    assert join.update(resolved={"example.com": ("192.0.2.1",)}) == {
        "n/tea:80": (wire.Endpoint(address="192.0.2.1", port=80),)
    }
    assert join.update({0: None}) == {"n/tea:80": None}
    assert join.external_hosts == frozenset()


def test_localhost_serves_at_once():
    pools = Join().update({0: shard(backend(external="localhost", port=8081))})
    assert pools == {"n/tea:8081": (wire.Endpoint(address="127.0.0.1", port=8081),)}


def test_pool_stays_while_one_shard_names_it():
    join = Join()
    join.update({0: shard(backend()), 1: shard(backend())}, slices(piece("10.0.0.1")))
    assert join.update({0: None}) == {}
    assert join.update({1: None}) == {"n/tea:80": None}


def test_only_differing_pools_are_returned():
    join = Join()
    join.update({0: shard(backend())}, slices(piece("10.0.0.1")))
    assert join.update(slices=slices(piece(state("10.0.0.1", ready=True)))) == {}
    assert join.update(slices=slices(piece("10.0.0.9", name="x", service="other"))) == {}
    assert join.update(slices={key_of(piece()): None}) == {"n/tea:80": ()}


def test_a_slice_may_move_to_another_service():
    join = Join()
    join.update({0: shard(backend(), backend("n/coffee"))}, slices(piece("10.0.0.1")))
    changed = join.update(slices=slices(piece("10.0.0.1", service="coffee")))
    assert {name: len(pool) for name, pool in changed.items()} == {"n/tea:80": 0, "n/coffee:80": 1}


def test_an_external_name_that_moves_to_another_shard_keeps_its_addresses():
    """The resolver never stopped following the host, so it reports nothing new."""
    join = Join()
    external = shard(backend(external="example.com"))
    join.update({0: external})
    join.update(resolved={"example.com": ("192.0.2.1",)})
    assert join.update({0: None, 1: external}) == {}
    assert join.update({0: external, 1: None}) == {}


SERVICES = st.sampled_from(["tea", "coffee", "milk"])
HOSTS = {"tea.example.com": ("192.0.2.1",), "milk.example.com": ("192.0.2.2", "192.0.2.3")}
BACKENDS = st.builds(
    lambda name, external: backend(f"n/{name}", external=external), SERVICES, st.sampled_from([None, *HOSTS])
)
SHARDS = st.lists(BACKENDS, max_size=3).map(lambda refs: shard(*refs))
PIECES = st.builds(
    lambda service, addresses: piece(*addresses, service=service),
    SERVICES,
    st.lists(st.sampled_from(["10.0.0.1", "10.0.0.2"]), max_size=2),
)


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.integers(0, 2), st.none() | SHARDS),
            st.dictionaries(st.sampled_from("abc"), st.none() | PIECES, max_size=2),
        ),
        max_size=8,
    )
)
def test_the_incremental_result_equals_the_result_from_scratch(history):
    join, pools, routing, pieces, asked = Join(), {}, {}, {}, frozenset()
    for shards, named in history:
        pools |= join.update(shards, named)
        # As the resolver does: it reports a host once while a route names it.
        pools |= join.update(resolved={host: HOSTS[host] for host in join.external_hosts - asked})
        asked = join.external_hosts
        routing |= shards
        pieces |= named
        there = {name: pool for name, pool in pools.items() if pool is not None}
        assert there == Join().update(routing, pieces, resolved=HOSTS)


def remembered(*addresses):
    return {"n/tea:80": tuple(wire.Endpoint(address=address, port=8080) for address in addresses)}


def addresses_of(pools):
    return [endpoint.address for endpoint in pools["n/tea:80"]]


def test_a_remembered_pool_counts_until_its_namespace_is_listed():
    join = Join()
    assert addresses_of(join.update({0: shard(backend())}, remembered=remembered("10.0.0.9"))) == ["10.0.0.9"]
    assert join.update(slices=slices(piece("10.0.0.1"))) == {}
    assert join.update(listed=["other"]) == {}
    assert addresses_of(join.update(listed=["n"])) == ["10.0.0.1"]


def test_a_listed_namespace_without_endpoints_empties_its_pools():
    join = Join()
    join.update({0: shard(backend())}, remembered=remembered("10.0.0.9"))
    assert join.update(listed=["n"]) == {"n/tea:80": ()}


def test_a_remembered_pool_survives_that_a_route_leaves_and_returns():
    join = Join()
    join.update({0: shard(backend())}, remembered=remembered("10.0.0.9"))
    assert join.update({0: None}) == {"n/tea:80": None}
    assert addresses_of(join.update({0: shard(backend())})) == ["10.0.0.9"]


def test_pool_without_memory_uses_the_known_slices():
    join = Join()
    join.update({0: shard(backend())}, remembered=remembered("10.0.0.9"))
    pools = join.update({1: shard(backend(service="n/milk"))}, slices(piece("10.0.0.2", name="m", service="milk")))
    assert [endpoint.address for endpoint in pools["n/milk:80"]] == ["10.0.0.2"]


def test_an_external_name_is_remembered_until_it_is_resolved():
    join = Join()
    pools = join.update({0: shard(backend(external="tea.example.com"))}, remembered=remembered("10.0.0.9"))
    assert addresses_of(pools) == ["10.0.0.9"]
    assert join.update(listed=["n"]) == {}
    assert addresses_of(join.update(resolved={"tea.example.com": ("10.0.0.1",)})) == ["10.0.0.1"]


def test_pool_that_cannot_have_endpoints_is_named_with_the_reason():
    join = Join()
    join.update({0: shard(backend("n/tea", port_name="web"), backend("n/green"))}, listed=["n"])
    assert join.unserved.count == 2
    assert join.unserved.first == (
        "n/green:80: no EndpointSlice has the label kubernetes.io/service-name: green",
        "n/tea:80: no EndpointSlice has the label kubernetes.io/service-name: tea",
    )
    join.update(slices=slices(piece("10.0.0.1", ports=(("http", 80), ("admin", 81)))))
    assert join.unserved.first[1] == ('n/tea:80: no port of its EndpointSlices is called "web"; they have admin, http')
    join.update(slices=slices(piece("10.0.0.1", ports=(("web", 80),))))
    assert join.unserved.count == 1
    join.update({0: None})
    assert join.unserved == UnservedPools()


def test_service_that_is_scaled_to_zero_is_no_mistake():
    join = Join()
    join.update({0: shard(backend(port_name="web"))}, slices(piece(ports=())), listed=["n"])
    assert join.unserved == UnservedPools()
    join.update(slices=slices(piece(state("10.0.0.1", ready=False), ports=(("web", 80),))))
    assert join.unserved == UnservedPools()


def test_nothing_is_said_about_a_namespace_that_was_not_listed():
    join = Join()
    join.update({0: shard(backend(), backend(external="example.com", service="n/away"))})
    assert join.unserved == UnservedPools()
    join.update(listed=["n"])
    assert join.unserved.count == 1


def test_many_pools_without_endpoints_are_counted_and_few_are_named():
    join = Join()
    join.update({0: shard(*(backend(f"n/s{number:04}") for number in range(2000)))}, listed=["n"])
    assert join.unserved.count == 2000
    assert [one.partition(":")[0] for one in join.unserved.first] == [f"n/s{number:04}" for number in range(5)]
    assert join.unserved is join.unserved, "it is computed once for each change"
