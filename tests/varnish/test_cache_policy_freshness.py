"""How long a response is fresh, and for how long it is used after that."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from support.http.scripted_origin import ScriptedOrigin, answer, late, together
from support.varnish.caching import outcome, parameters, policy, reason
from support.waiting import until
from varnish_gateway.ir import wire

pytestmark = pytest.mark.usefixtures("empty_cache")


@pytest.fixture(scope="module")
def environment(clock):
    return clock.environment


def with_headers(*lines: str, status: int = 200):
    return answer(status, headers=lines)


def fetches(ghost, *, times: int = 2) -> list:
    """Send requests and return their answers."""
    return [ghost.get("/page") for _ in range(times)]


def fetch_later(ghost, clock) -> list:
    """Send two requests, the second one 200 ms after the first; return their answers."""
    first = ghost.get("/page")
    clock.advance(200)
    return [first, ghost.get("/page")]


@pytest.mark.parametrize(
    ("fields", "lines", "ttl", "word"),
    [
        ({}, (), 60, "default-ttl"),
        ({}, ("Cache-Control: max-age=600",), 600, "max-age"),
        ({}, ("Cache-Control: max-age=600, s-maxage=30",), 30, "s-maxage"),
        ({}, ("Cache-Control: no-store", "CDN-Cache-Control: max-age=90"), 90, "max-age"),
        ({"forced": True}, ("Cache-Control: max-age=600",), 60, "forced-ttl"),
        ({"forced": True}, ("Cache-Control: no-cache",), 60, "forced-ttl"),
        ({"forced": True}, ("Cache-Control: max-age=0",), 60, "forced-ttl"),
    ],
)
def test_lifetime_comes_from_origin_or_policy(ghost, serve, *, fields, lines, ttl, word):
    with ScriptedOrigin(with_headers(*lines)) as origin:
        serve(origin, cache=policy(**fields))
        first, second = fetches(ghost)
        assert len(origin.requests) == 1
        assert reason(first) == f"uri-miss {word}"
        assert ttl - 2 <= int(parameters(second)["ttl"]) <= ttl


@pytest.mark.parametrize(
    ("fields", "lines", "status", "word"),
    [
        ({}, ("Cache-Control: private",), 200, "private"),
        ({}, ("Cache-Control: no-store",), 200, "no-store"),
        ({"forced": True}, ("Cache-Control: private",), 200, "private"),
        ({"forced": True}, ("Cache-Control: no-store",), 200, "no-store"),
        ({}, ("Vary: Accept, *",), 200, "vary-any"),
        ({}, ("Set-Cookie: a=1",), 200, "set-cookie"),
        ({}, (), 500, "server-error"),
        ({"forced": True}, (), 503, "server-error"),
        ({}, (), 302, "status"),
        ({"max_object_size": 3}, (), 200, "too-large"),
    ],
)
def test_response_is_not_stored(ghost, serve, *, fields, lines, status, word):
    """Among them: no 5xx, and no private response, whatever the policy's TTL."""
    with ScriptedOrigin(with_headers(*lines, status=status)) as origin:
        serve(origin, cache=policy(**fields))
        first, second = fetches(ghost)
        assert len(origin.requests) == 2
        assert [reason(one) for one in (first, second)] == [f"uri-miss {word}", f"hit-for-miss {word}"]
        assert [outcome(one) for one in (first, second)] == ["uri-miss", "miss"]
        assert "stored" not in parameters(first)


def test_unsafe_field_lets_forced_ttl_store_private_responses(ghost, serve):
    with ScriptedOrigin(with_headers("Cache-Control: private")) as origin:
        serve(origin, cache=policy(forced=True, unsafe_ignore_no_store_and_private=True))
        fetches(ghost)
        assert len(origin.requests) == 1


@pytest.mark.parametrize(("status", "ttl"), [(404, 5), (410, 60), (503, 2)])
def test_negative_responses_have_lifetimes_of_their_own(ghost, serve, status, ttl):
    lifetimes = (wire.StatusTTL(status="404", ttl=5_000), wire.StatusTTL(status="5xx", ttl=2_000))
    with ScriptedOrigin(with_headers(status=status)) as origin:
        serve(origin, cache=policy(status_ttls=lifetimes))
        first, second = fetches(ghost)
        assert (first.status, second.status, len(origin.requests)) == (status, status, 1)
        assert ttl - 1 <= int(parameters(second)["ttl"]) <= ttl


def test_grace_of_zero_is_zero(ghost, serve, clock):
    """The 10 s that varnishd has by default have no effect."""
    with ScriptedOrigin(with_headers()) as origin:
        serve(origin, cache=policy(ttl=100, grace=0))
        _, second = fetch_later(ghost, clock)
        assert len(origin.requests) == 2
        assert outcome(second) in ("stale", "uri-miss"), "varnishd removes a stale object in its own time"


def test_stale_response_is_served_while_it_is_refreshed(ghost, serve, clock):
    with ScriptedOrigin(with_headers("X-N: 1"), late(0.3, with_headers("X-N: 2"))) as origin:
        serve(origin, cache=policy(ttl=100, stale_while_revalidate=60_000))
        first, second = fetch_later(ghost, clock)
        assert (first.header("x-n"), second.header("x-n")) == ("1", "1")
        assert reason(second) == "stale-while-revalidate"
        assert int(parameters(second)["ttl"]) < 0
        until(lambda: ghost.get("/page").header("x-n") == "2", "the refreshed response is served")


def test_origin_decides_about_stale_while_revalidate(ghost, serve):
    with ScriptedOrigin(with_headers("Cache-Control: max-age=0, stale-while-revalidate=0")) as origin:
        serve(origin, cache=policy(stale_while_revalidate=60_000))
        fetches(ghost)
        assert len(origin.requests) == 2


def test_expired_response_is_validated(ghost, serve, clock):
    """The field keep allows a conditional request, and no stale response."""
    not_modified = answer(304, b"", headers=['ETag: "a"'])
    with ScriptedOrigin(with_headers('ETag: "a"'), not_modified) as origin:
        serve(origin, cache=policy(ttl=100, grace=0, keep=60_000))
        _, second = fetch_later(ghost, clock)
        assert len(origin.requests) == 2
        assert b'If-None-Match: "a"' in origin.requests[1]
        assert (second.status, second.body, outcome(second)) == (200, b"done", "stale")
        assert parameters(second)["fwd-status"] == "304"


def test_no_cache_is_stored_and_validated_each_time(ghost, serve):
    fresh = with_headers('ETag: "a"', "Cache-Control: no-cache")
    not_modified = answer(304, b"", headers=['ETag: "a"', "Cache-Control: no-cache"])
    with ScriptedOrigin(fresh, not_modified) as origin:
        serve(origin, cache=policy(grace=60_000))
        answers = fetches(ghost, times=3)
        assert [one.body for one in answers] == [b"done"] * 3
        assert [b"If-None-Match" in one for one in origin.requests] == [False, True, True]
        assert [reason(one).split()[0] for one in answers] == ["uri-miss", "no-cache", "no-cache"]


def test_validated_response_is_fresh_again(ghost, serve):
    not_modified = answer(304, b"", headers=['ETag: "a"', "Cache-Control: max-age=60", "X-New: 1"])
    with ScriptedOrigin(with_headers('ETag: "a"', "Cache-Control: max-age=0", "X-Old: 1"), not_modified) as origin:
        serve(origin, cache=policy())
        answers = fetches(ghost, times=3)
        assert len(origin.requests) == 2
        assert [one.header("x-new") for one in answers] == [None, "1", "1"]
        assert [one.header("x-old") for one in answers] == ["1", "1", "1"]


def test_age_of_another_cache_counts(ghost, serve):
    with ScriptedOrigin(with_headers("Cache-Control: max-age=60", "Age: 50")) as origin:
        serve(origin, cache=policy())
        _, second = fetches(ghost)
        assert 50 <= int(second.header("age")) <= 52
        assert 8 <= int(parameters(second)["ttl"]) <= 10


def test_jitter_shortens_lifetimes(ghost, serve):
    with ScriptedOrigin(with_headers("Cache-Control: max-age=1000")) as origin:
        serve(origin, cache=policy(jitter_percent=50))
        ttls = []
        for number in range(20):
            ghost.get(f"/{number}")
            ttls.append(int(parameters(ghost.get(f"/{number}"))["ttl"]))
        assert min(ttls) >= 498
        assert max(ttls) <= 1000
        assert len(set(ttls)) > 10


def test_request_after_an_unstored_response_does_not_wait_for_another(ghost, serve):
    """Hit-for-miss: uncacheable responses are fetched side by side. None is answered before all are asked for."""
    private = with_headers("Cache-Control: private")
    with ScriptedOrigin(private, together(6, private)) as origin:
        serve(origin, cache=policy(hit_for_miss=60_000))
        ghost.get("/page")
        answers = at_once(ghost, 6)
        assert {one.status for one in answers} == {200}
        assert len(origin.requests) == 7


def test_requests_for_one_response_are_collapsed(ghost, serve):
    with ScriptedOrigin(late(0.3, with_headers())) as origin:
        serve(origin, cache=policy())
        answers = at_once(ghost, 6)
        assert len(origin.requests) == 1
        collapsed = [one for one in answers if "collapsed" in parameters(one)]
        assert len(collapsed) >= 1
        assert {(outcome(one), parameters(one)["collapsed"], reason(one)) for one in collapsed} == {
            ("uri-miss", "", "collapsed default-ttl")
        }
        assert {outcome(one) for one in answers} <= {"uri-miss", "hit"}


def test_request_that_waits_in_vain_is_not_collapsed(ghost, serve):
    private = with_headers("Cache-Control: private")
    with ScriptedOrigin(late(0.3, private), private) as origin:
        serve(origin, cache=policy())
        first, second = at_once(ghost, 2)
        found = [parameters(one).get("collapsed") for one in (first, second)]
        assert sorted(found, key=str) == ["?0", None]
        assert len(origin.requests) == 2


def at_once(ghost, count):
    """Return the answers to so many requests that are sent side by side."""
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda _: ghost.get("/page"), range(count)))
