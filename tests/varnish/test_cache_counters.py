"""What the cache did, by route and policy: each counter follows what causes it, on a real varnishd."""

import contextlib
import socket
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from support.http.client import Request, over_http2
from support.http.scripted_origin import ScriptedOrigin, Step, answer, late
from support.http.websocket import HANDSHAKE, echo
from support.varnish.caching import NAME, parameters, policy
from support.varnish.ghost import Config, GhostHarness, backend, prefix, refusing_endpoint, route, to
from support.waiting import until
from varnish_gateway.ir import wire

pytestmark = pytest.mark.usefixtures("empty_cache")

WINDOW = {"ttl": 100, "grace": 0}
DONE = answer(headers=['ETag: "a"'])
NOT_MODIFIED = answer(304, b"", headers=['ETag: "a"'])
PAGE = Request(method="GET", target="/page", host="example.com")
MISS = {"miss": 1, "bytes of origin": 4}
STORED = MISS | {"stored": 1}
FROM_CACHE = {"hit", "stale", "coalesced"}
FETCHED = {"miss", "hit-for-miss"}


@pytest.fixture(scope="module")
def environment(clock):
    return clock.environment


def counted(ghost: GhostHarness, name: str = NAME) -> dict[str, int]:
    """Return the counters of the only route under one policy, by what they count."""
    counts = ghost.counters()["routes"]["default/r"]["cache"].get(name)
    if counts is None:
        return {}
    found = {word: counts[word] for word in ("stored", "revalidated")} | counts["requests"]
    found |= {f"not stored: {word}": count for word, count in counts["uncacheable"].items()}
    return found | {f"bytes of {word}": count for word, count in counts["bytes"].items()}


class Count:
    """What is counted from now on."""

    def __init__(self, ghost: GhostHarness, name: str = NAME) -> None:
        self._ghost, self._name = ghost, name
        self._before = counted(ghost, name)

    def now(self) -> dict[str, int]:
        changes = {word: count - self._before.get(word, 0) for word, count in counted(self._ghost, self._name).items()}
        return {word: change for word, change in changes.items() if change}

    def is_soon(self, expected: dict[str, int]) -> None:
        """Check everything that is counted. Bytes are, once the response has been sent."""
        with contextlib.suppress(AssertionError):
            until(lambda: self.now() == expected, seconds=5)
        assert self.now() == expected


@pytest.fixture
def counting(ghost, serve) -> Callable[..., Count]:
    """Serve an origin under a policy, and count from then on."""

    def start(origin: ScriptedOrigin | wire.Endpoint, **fields) -> Count:
        serve(origin, cache=policy(**fields))
        return Count(ghost)

    return start


# -- requests --------------------------------------------------------------------------


def test_miss_is_stored_and_the_next_request_is_a_hit(ghost, counting):
    with ScriptedOrigin(DONE) as origin:
        count = counting(origin)
        ghost.get("/page")
        count.is_soon(STORED)
        ghost.get("/page")
        count.is_soon(STORED | {"hit": 1, "bytes of cache": 4})


@pytest.mark.parametrize("control", ["no-cache", "max-age=0"])
def test_fresh_response_beyond_the_budget_of_validations_is_a_hit(ghost, counting, control):
    with ScriptedOrigin(DONE) as origin:
        count = counting(origin, revalidation=wire.Revalidation(per_object=0, per_route=0))
        for _ in range(2):
            ghost.get("/page", headers=[("Cache-Control", control)])
        count.is_soon(STORED | {"hit": 1, "bytes of cache": 4})


def test_response_in_grace_is_stale_and_its_refresh_is_no_request(ghost, counting, clock):
    with ScriptedOrigin(DONE, NOT_MODIFIED) as origin:
        count = counting(origin, ttl=100, grace=60_000)
        ghost.get("/page")
        clock.advance(300)
        ghost.get("/page")
        count.is_soon(STORED | {"stale": 1, "bytes of cache": 4, "revalidated": 1})


def test_stale_response_that_a_client_allows_is_stale(ghost, counting, clock):
    with ScriptedOrigin(DONE) as origin:
        count = counting(origin, **WINDOW)
        ghost.get("/page")
        clock.advance(300)
        ghost.get("/page", headers=[("Cache-Control", "max-stale")])
        count.is_soon(STORED | {"stale": 1, "bytes of cache": 4})


def test_stale_response_in_place_of_an_error_is_stale(ghost, counting, serve, clock):
    fields = {**WINDOW, "stale_if_error": 60_000}
    with ScriptedOrigin(DONE) as origin:
        count = counting(origin, **fields)
        ghost.get("/page")
        clock.advance(300)
        serve(refusing_endpoint(), cache=policy(**fields))
        assert ghost.get("/page").status == 200
        count.is_soon(STORED | {"stale": 1, "bytes of cache": 4})


def test_requests_that_share_a_response_are_coalesced(ghost, counting):
    with ScriptedOrigin(late(0.5, DONE)) as origin, ThreadPoolExecutor(6) as pool:
        count = counting(origin)
        answers = list(pool.map(lambda _: ghost.get("/page"), range(6)))
        shared = sum("collapsed" in parameters(one) for one in answers)
        assert shared
        late_ones = {"hit": 5 - shared} if shared < 5 else {}
        count.is_soon(STORED | {"coalesced": shared, "bytes of cache": 20} | late_ones)


def test_request_after_a_response_that_was_not_stored_is_hit_for_miss(ghost, counting):
    with ScriptedOrigin(answer(headers=["Cache-Control: private"])) as origin:
        count = counting(origin)
        ghost.get("/page")
        count.is_soon(MISS | {"not stored: private": 1})
        ghost.get("/page")
        count.is_soon({"miss": 1, "hit-for-miss": 1, "bytes of origin": 8, "not stored: private": 2})


@pytest.mark.parametrize(
    ("request_", "fields", "vcl"),
    [
        ({"method": "POST", "body": b"x"}, {}, ""),
        ({"headers": [("Cookie", "session=1")]}, {"bypass": wire.Bypass(cookies=("session",))}, ""),
        ({"headers": [("Cache-Control", "no-store")]}, {}, ""),
        ({}, {}, "sub vcl_recv { return (pass); }"),
        ({}, {}, "sub vcl_miss { return (pass); }"),
    ],
    ids=["method", "cookie", "no-store", "vcl_recv", "vcl_miss"],
)
def test_request_that_bypasses_the_cache_is_a_pass(ghost, counting, request_, fields, vcl):
    with ScriptedOrigin(DONE) as origin:
        count = counting(origin, **fields)
        ghost.load_vcl(vcl)
        ghost.get("/page", **request_)
        count.is_soon({"pass": 1, "bytes of origin": 4})


def test_websocket_is_a_pass(ghost, counting):
    with ScriptedOrigin(echo) as origin:
        count = counting(origin)
        with socket.create_connection(("127.0.0.1", ghost.ports["http-80"]), 20) as connection:
            connection.sendall(HANDSHAKE)
            assert connection.recv(1000).startswith(b"HTTP/1.1 101 ")
            assert count.now() == {"pass": 1}


def test_results_add_up_to_the_requests_of_the_route(ghost, counting, clock):
    """They are told apart as hits, misses and passes of the route are."""
    private = answer(headers=["Cache-Control: private"])
    with ScriptedOrigin(DONE, private, private, DONE) as origin:
        count = counting(origin, ttl=100, grace=60_000)
        before = ghost.counters()["routes"]["default/r"]
        for path, advance in [("/a", 0), ("/a", 300), ("/b", 0), ("/b", 0)]:
            clock.advance(advance)
            ghost.get(path)
        ghost.get("/a", method="POST")
        after = ghost.counters()["routes"]["default/r"]
    results = count.now()
    assert {word for word in results if word in FROM_CACHE | FETCHED | {"pass"}} == {
        "miss",
        "stale",
        "hit-for-miss",
        "pass",
    }
    for name, words in [("hits", FROM_CACHE), ("misses", FETCHED), ("passes", {"pass"})]:
        assert after[name] - before[name] == sum(results.get(word, 0) for word in words)


# -- responses of the origin -----------------------------------------------------------


def test_confirmed_response_is_revalidated_and_not_stored_again(ghost, counting, clock):
    with ScriptedOrigin(DONE, NOT_MODIFIED) as origin:
        count = counting(origin, **WINDOW)
        ghost.get("/page")
        clock.advance(300)
        ghost.get("/page")
        count.is_soon({"miss": 2, "stored": 1, "revalidated": 1, "bytes of origin": 8})


def with_lines(*lines: str, status: int = 200) -> Step:
    return answer(status, headers=lines)


@pytest.mark.parametrize(
    ("reason", "step", "fields"),
    [
        ("no-store", with_lines("Cache-Control: no-store"), {}),
        ("private", with_lines("Cache-Control: private"), {}),
        ("set-cookie", with_lines("Set-Cookie: a=1"), {}),
        ("vary-any", with_lines("Vary: *"), {}),
        ("too-large", with_lines(), {"max_object_size": 3}),
        ("too-many-tags", with_lines("Surrogate-Key: " + "x " * 1025), {"tag_headers": ("Surrogate-Key",)}),
        ("server-error", with_lines(status=500), {}),
        ("must-understand", with_lines("Cache-Control: must-understand, max-age=60", status=299), {}),
        ("zero-lifetime", with_lines(), {"ttl": 0, "keep": 0}),
        ("stale-on-arrival", with_lines("Cache-Control: max-age=1", "Age: 9"), {"grace": 0, "keep": 0}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_response_that_is_not_stored_is_counted_by_its_reason(ghost, counting, reason, step, fields):
    with ScriptedOrigin(step) as origin:
        count = counting(origin, **fields)
        ghost.get("/page")
        count.is_soon(MISS | {f"not stored: {reason}": 1})


def test_response_that_a_request_keeps_from_being_stored_is_counted_by_its_reason(ghost, counting):
    with ScriptedOrigin(DONE) as origin:
        count = counting(origin)
        ghost.get("/page", headers=[("Authorization", "Basic eDp5")])
        count.is_soon(MISS | {"not stored: authorization": 1})


def test_response_under_a_policy_that_has_changed_meanwhile_is_not_stored(ghost):
    """The name of the policy is the same: its counters go on."""
    with ScriptedOrigin(DONE) as origin, gate() as (address, pause), ThreadPoolExecutor(1) as pool:
        reload(ghost, origin, listener=policy())
        ghost.load_vcl(f'import vtc; sub vcl_miss {{ vtc.barrier_sync("{address}"); }}')
        count = Count(ghost)
        ghost.get("/page", method="POST")  # a name without a request has no counters
        count.is_soon({"pass": 1, "bytes of origin": 4})  # bytes are counted after the client has them
        count = Count(ghost)
        waiting = pool.submit(ghost.get, "/page")
        with pause():
            reload(ghost, origin, listener=policy(ttl=30_000))
        assert waiting.result().status == 200
        count.is_soon(MISS | {"not stored: other-policy": 1})


# -- bytes -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "status", "sent"),
    [
        ({"headers": [("Range", "bytes=1-2")]}, 206, 2),
        ({"method": "HEAD"}, 200, 0),
        ({"headers": [("If-None-Match", '"a"')]}, 304, 0),
    ],
    ids=["range", "head", "not-modified"],
)
def test_bytes_are_those_that_a_client_gets(ghost, counting, request_, status, sent):
    with ScriptedOrigin(DONE) as origin:
        count = counting(origin)
        ghost.get("/page")
        assert ghost.get("/page", **request_).status == status
        # The requests before have been counted when a further one has.
        ghost.get("/page")
        count.is_soon(STORED | {"hit": 2, "bytes of cache": 4 + sent})


async def test_bytes_of_a_client_that_leaves_early_are_those_that_were_sent(ghost, counting):
    body = bytes(20_000_000)
    with ScriptedOrigin(answer(body=body)) as origin:
        count = counting(origin)
        with socket.create_connection(("127.0.0.1", ghost.ports["http-80"])) as connection:
            connection.sendall(b"GET /page HTTP/1.1\r\nHost: example.com\r\n\r\n")
            connection.recv(1000)
        until(lambda: "bytes of origin" in count.now(), "the request has ended")
        assert 0 < count.now()["bytes of origin"] < len(body)


async def test_bytes_are_counted_over_http2(ghost, counting):
    with ScriptedOrigin(DONE) as origin:
        count = counting(origin)
        for _ in range(2):
            (found,) = await over_http2(ghost.ports["http-80"], [PAGE])
            assert found.body == b"done"
        count.is_soon(STORED | {"hit": 1, "bytes of cache": 4})


def test_bytes_of_a_page_include_what_esi_includes(ghost, counting):
    page = answer(body=b'<esi:include src="/part"/>', headers=["Content-Type: text/html"])
    with ScriptedOrigin(page, DONE) as origin:
        count = counting(origin, esi=True)
        assert ghost.get("/page").body == b"done"
        count.is_soon({"miss": 2, "stored": 2, "bytes of origin": 4})


# -- routes, policies and reloads ------------------------------------------------------


@contextlib.contextmanager
def gate() -> Iterator[tuple[str, Callable[[], contextlib.AbstractContextManager]]]:
    """Give the address of a barrier for VCL, and what holds the first who comes there while its body runs."""

    @contextlib.contextmanager
    def pause() -> Iterator[None]:
        connection, _ = server.accept()
        with connection:
            yield

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(20)
        yield f"127.0.0.1:{server.getsockname()[1]}", pause


def reload(ghost: GhostHarness, origin: ScriptedOrigin, *rules: wire.Rule, listener: wire.CachePolicy | None) -> None:
    listeners = (wire.Listener(name="http", socket="http-80", port=80, cache=listener),)
    routes = [route("r", *(rules or (to(backend("pool")),)))]
    assert ghost.reload(Config(routes, {"pool": [origin.endpoint]}, listeners=listeners)).status == 200


def named(name: str, **fields) -> wire.CachePolicy:
    return msgspec.structs.replace(policy(**fields), name=f"default/{name}")


def test_policies_of_rules_and_of_the_listener_count_apart(ghost):
    rules = [to(backend("pool"), matches=[prefix(f"/{name}")], cache=named(name)) for name in ("one", "two")]
    with ScriptedOrigin(DONE) as origin:
        reload(ghost, origin, *rules, to(backend("pool")), listener=named("listener"))
        counts = {name: Count(ghost, f"default/{name}") for name in ("one", "two", "listener")}
        for path, times in [("/one", 1), ("/two", 2), ("/other", 3)]:
            for _ in range(times):
                ghost.get(path)
        counts["one"].is_soon(STORED)
        counts["two"].is_soon(STORED | {"hit": 1, "bytes of cache": 4})
        counts["listener"].is_soon(STORED | {"hit": 2, "bytes of cache": 8})


def test_route_without_a_policy_has_no_counters(ghost, serve):
    with ScriptedOrigin(DONE) as origin:
        ghost.reload(Config())
        serve(origin)
        assert ghost.get("/page").status == 200
        assert ghost.counters()["routes"]["default/r"]["cache"] == {}


def test_counters_survive_a_change_of_the_policy_of_the_route_and_of_vcl(ghost, counting, serve):
    with ScriptedOrigin(DONE) as origin:
        count = counting(origin)
        ghost.get("/page")
        count.is_soon(STORED)
        serve(origin, cache=policy(ttl=30_000))
        ghost.load_vcl("")
        serve(origin, cache=policy(ttl=30_000), timeouts=wire.Timeouts(request=9000))
        ghost.get("/page")
        count.is_soon(STORED | {"hit": 1, "bytes of cache": 4})


@pytest.mark.parametrize("place", ["rule", "listener"])
def test_counters_of_a_policy_end_with_it(ghost, place):
    """Otherwise a tenant who renames policies could add labels without end."""

    def use(policy_: wire.CachePolicy | None) -> None:
        if place == "rule":
            reload(ghost, origin, to(backend("pool"), cache=policy_), listener=named("kept"))
        else:
            reload(ghost, origin, kept, to(backend("pool")), listener=policy_)

    kept = to(backend("pool"), matches=[prefix("/kept")], cache=named("kept"))
    with ScriptedOrigin(DONE) as origin:
        use(named("first"))
        for path in ("/page", "/kept"):
            ghost.get(path)
        use(None)
        ghost.get("/kept")
        assert set(ghost.counters()["routes"]["default/r"]["cache"]) == {"default/kept"}
        use(named("second"))
        ghost.get("/page")
        assert set(ghost.counters()["routes"]["default/r"]["cache"]) == {"default/kept", "default/second"}


def test_counters_begin_again_with_a_recreated_route(ghost, counting):
    with ScriptedOrigin(DONE) as origin:
        counting(origin)
        ghost.get("/page")
        ghost.reload(Config())
        count = counting(origin)
        assert count.now() == {}
        ghost.get("/other")
        count.is_soon(STORED)


# -- evictions -------------------------------------------------------------------------


def evicted(ghost: GhostHarness) -> tuple[dict[float, int], float]:
    """Return how many evicted objects had not been used for up to so many seconds, and their sum."""
    counts = ghost.counters()["evicted"]
    return {bucket["le"]: bucket["count"] for bucket in counts["buckets"]}, counts["sum"]


def expired(ghost: GhostHarness) -> int:
    call = ["varnishstat", "-1", "-n", str(ghost.directory / "varnish"), "-f", "MAIN.n_expired"]
    return int(subprocess.run(call, capture_output=True, text=True, check=True).stdout.split()[1])


def test_evicted_objects_are_counted_by_the_time_since_their_last_use(ghost, serve, clock):
    with ScriptedOrigin(answer(body=bytes(2_000_000))) as origin:
        serve(origin, cache=policy(ttl=3_600_000))
        for number in range(5):
            ghost.get(f"/old/{number}")
        clock.advance(30_000)
        for _ in range(5):
            ghost.get("/old/4")  # varnishd doesn't note a use while another thread has its list
            clock.advance(3_000)
        clock.advance(47_000)
        before, _ = evicted(ghost)
        for number in range(40):
            ghost.get(f"/new/{number}")
    after, seconds = evicted(ghost)
    more = {bound: after[bound] - before[bound] for bound in after}
    assert more[600] - more[60] >= 4
    assert more[60] - more[10] >= 1, "a use counts"
    assert seconds > 4 * 80 + 50


def test_objects_that_leave_for_other_reasons_are_no_evictions(ghost, serve):
    with ScriptedOrigin(DONE) as origin:
        serve(origin, cache=policy(ttl=500, grace=0, keep=0))
        before = evicted(ghost)
        for number in range(3):
            ghost.get(f"/page/{number}")
        ghost.admin("ban", "req.url ~ .")
        count = expired(ghost)
        for number in range(3):
            ghost.get(f"/page/{number}")  # finds the object banned
            ghost.get("/page", method="POST")
        until(lambda: expired(ghost) >= count + 3, "they expire")
    assert evicted(ghost) == before
