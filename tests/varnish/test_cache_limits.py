"""What one URL may take of the cache. The store of these tests has 64 MB."""

import msgspec
import pytest

from support.http.scripted_origin import ScriptedOrigin, Step, answer
from support.varnish.caching import outcome, policy, reason
from support.varnish.ghost import HTTP_80, Config, backend, route, to
from varnish_gateway.ir import wire

pytestmark = pytest.mark.usefixtures("empty_cache")

MB = 1_000_000


def sized(size: int) -> Step:
    """Send a large body, however long it takes varnishd to read it."""

    def step(connection, stop) -> bool:
        connection.settimeout(20)
        answer(body=b"x" * size)(connection, stop)
        return False

    return step


def chunked(size: int) -> Step:
    """Send a body without its length."""

    def step(connection, _) -> bool:
        connection.settimeout(20)
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for begin in range(0, size, MB):
            piece = min(MB, size - begin)
            connection.sendall(b"%x\r\n%b\r\n" % (piece, b"x" * piece))
        connection.sendall(b"0\r\n\r\n")
        return False

    return step


# -- size ------------------------------------------------------------------------------


def test_response_larger_than_the_store_evicts_nothing(ghost, serve):
    with ScriptedOrigin(answer(), sized(70 * MB)) as origin:
        serve(origin, cache=policy())
        ghost.get("/small")
        large = ghost.get("/large")
        assert (len(large.body), reason(large)) == (70 * MB, "uri-miss too-large")
        assert outcome(ghost.get("/small")) == "hit"
        assert len(origin.requests) == 2


@pytest.mark.parametrize(("size", "stored"), [(30 * MB, True), (40 * MB, False)])
def test_response_may_take_half_of_the_store(ghost, serve, size, stored):
    with ScriptedOrigin(sized(size)) as origin:
        serve(origin, cache=policy())
        assert [len(ghost.get(f"/half-{size}").body) for _ in range(2)] == [size, size]
        assert len(origin.requests) == (1 if stored else 2)


@pytest.mark.parametrize(("most", "size"), [(None, 40 * MB), (10_000, 2 * MB)])
def test_response_without_a_length_that_is_too_large_is_delivered_but_not_kept(ghost, serve, most, size):
    """The second one is not even stored as it arrives."""
    with ScriptedOrigin(chunked(size)) as origin:
        serve(origin, cache=policy(max_object_size=most))
        answers = [ghost.get(f"/chunked-{size}") for _ in range(2)]
        assert [len(one.body) for one in answers] == [size, size]
        assert [reason(one) for one in answers] == ["uri-miss default-ttl", "uri-miss too-large"]
        assert len(origin.requests) == 2


def test_response_without_a_length_within_the_limit_is_stored(ghost, serve):
    with ScriptedOrigin(chunked(2 * MB)) as origin:
        serve(origin, cache=policy(max_object_size=2 * MB))
        assert [len(ghost.get("/within").body) for _ in range(2)] == [2 * MB] * 2
        assert len(origin.requests) == 1


def test_rule_with_many_large_responses_without_a_length_stores_only_small_ones_of_these(ghost):
    """A client could evict what others use by a large response of many URLs."""

    def by_target(connection, stop):
        target = origin.requests[-1].split()[1]
        return chunked(int(target.split(b"=")[1].split(b"&")[0]))(connection, stop)

    def is_kept(target: str, host: str = "many.test") -> bool:
        return [outcome(ghost.get(target, host=host)) for _ in range(2)][1] == "hit"

    with ScriptedOrigin(by_target) as origin:
        listener = msgspec.structs.replace(HTTP_80, cache=policy(max_object_size=3 * MB))
        routes = [route(name, to(backend("pool")), hosts=[f"{name}.test"]) for name in ("many", "few")]
        assert ghost.reload(Config(routes, {"pool": [origin.endpoint]}, listeners=[listener])).status == 200
        assert is_kept(f"/?size={2 * MB}")
        assert not any(is_kept(f"/?size={4 * MB}&x={number}") for number in range(4))
        assert not is_kept(f"/?size={2 * MB}&x")
        assert is_kept(f"/?size={MB // 2}")
        assert is_kept(f"/?size={2 * MB}&x", host="few.test")


def test_whole_body_that_is_too_large_is_not_kept_where_user_vcl_awaits_it(ghost, serve):
    ghost.load_vcl("sub vcl_backend_response { set beresp.do_stream = false; }")
    with ScriptedOrigin(chunked(2 * MB)) as origin:
        serve(origin, cache=policy(max_object_size=20_000))
        assert [len(ghost.get("/awaited").body) for _ in range(2)] == [2 * MB] * 2
        assert len(origin.requests) == 2


def test_large_response_of_one_rule_keeps_no_other_rule_from_storing(ghost):
    """The first rule sends its origin the Host and the URL of the second, and both have one policy."""
    listener = msgspec.structs.replace(HTTP_80, cache=policy(max_object_size=10_000))
    theirs = wire.Filters(rewrite=wire.Rewrite(hostname="b.test", path=wire.PathModifier(type="full", value="/page")))
    with ScriptedOrigin(chunked(2 * MB)) as large, ScriptedOrigin(chunked(1_000)) as small:
        routes = [
            route("a", to(backend("large"), filters=theirs), hosts=["a.test"]),
            route("b", to(backend("small")), hosts=["b.test"]),
        ]
        pools = {"large": [large.endpoint], "small": [small.endpoint]}
        assert ghost.reload(Config(routes, pools, listeners=[listener])).status == 200
        assert len(ghost.get("/mine", host="a.test").body) == 2 * MB
        assert [outcome(ghost.get("/page", host="b.test")) for _ in range(2)] == ["uri-miss", "hit"]


def test_large_response_of_one_key_keeps_no_other_key_of_its_url_from_being_stored(ghost, serve):
    def by_size(connection, stop):
        return chunked(2 * MB if b"large" in origin.requests[-1] else 1_000)(connection, stop)

    with ScriptedOrigin(by_size) as origin:
        serve(origin, cache=policy(max_object_size=10_000, cache_key=wire.CacheKey(headers=("X-Size",))))
        assert len(ghost.get("/sizes", headers=[("X-Size", "large")]).body) == 2 * MB
        small = [ghost.get("/sizes", headers=[("X-Size", "small")]) for _ in range(2)]
        assert [outcome(one) for one in small] == ["uri-miss", "hit"]


# -- variants --------------------------------------------------------------------------


def test_url_keeps_a_limited_number_of_variants(ghost, serve):
    with ScriptedOrigin(answer(headers=["Vary: X-A"])) as origin:
        serve(origin, cache=policy())

        def get(number: int) -> str:
            return outcome(ghost.get("/variants", headers=[("X-A", str(number))]))

        assert {get(number) for number in range(300)} == {"uri-miss", "vary-miss"}
        assert {get(number) for number in range(100, 300)} == {"hit"}
        assert get(0) == "vary-miss"


def test_variant_that_is_used_stays_whatever_one_client_adds(ghost, serve):
    with ScriptedOrigin(answer(headers=["Vary: X-A"])) as origin:
        serve(origin, cache=policy())

        def get(name: str) -> str:
            return outcome(ghost.get("/used", headers=[("X-A", name)]))

        used = [f"used-{number}" for number in range(10)]
        assert {get(name) for name in [*used, *used]} >= {"hit"}
        for number in range(400):
            get(f"added-{number}")
        assert {get(name) for name in used} == {"hit"}
        assert get("added-0") == "vary-miss"


def test_variant_that_is_not_stored_takes_the_place_of_none_that_is(ghost, serve):
    stored, refused = answer(headers=["Vary: X-A"]), answer(headers=["Vary: X-A", "Cache-Control: private"])
    with ScriptedOrigin(*[stored] * 10, refused) as origin:
        serve(origin, cache=policy())

        def get(name: str) -> str:
            return outcome(ghost.get("/refused", headers=[("X-A", name)]))

        names = [f"stored-{number}" for number in range(10)]
        for name in [*names, *(f"refused-{number}" for number in range(400))]:
            get(name)
        assert get("refused-399") == "miss", "there is a marker"
        assert get("refused-0") == "vary-miss", "there is none any more"
        assert {get(name) for name in names} == {"hit"}
