"""Bulkheads: what is slow holds its share of varnishd's workers, and everything else goes on."""

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import pytest

from support.http.origins import Origin
from support.http.scripted_origin import ScriptedOrigin, answer, late, silence
from support.http.websocket import HANDSHAKE, echo
from support.varnish.caching import outcome, policy
from support.varnish.ghost import CACHE_EVERYTHING, Config, GhostHarness, backend, prefix, route, to
from support.varnish.overload import (
    CROWD,
    SLOW_REQUEST,
    SOON,
    Crowd,
    assert_undisturbed,
    is_from_vcl_synth,
    reason,
    serving,
    slow_and_fast,
)
from support.waiting import until
from varnish_gateway.ir import wire

SLOW_UPLOAD = b"POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nx"


@pytest.fixture
def tea() -> Iterator[Origin]:
    with Origin("tea") as origin:
        yield origin


def namesake(name: str, rule: wire.Rule, *, namespace: str = "default") -> wire.Route:
    attachments = (wire.Attachment(listener="http"),)
    return wire.Route(namespace=namespace, name=name, attachments=attachments, rules=(rule,))


# -- what is slow ----------------------------------------------------------------------


@pytest.mark.parametrize("request_", [SLOW_REQUEST, SLOW_UPLOAD], ids=["backend", "upload"])
def test_slow_requests_of_a_route_leave_workers_to_the_others(tea, request_):
    with (
        ScriptedOrigin(silence) as slow,
        serving(slow_and_fast(slow, tea)) as ghost,
        Crowd(ghost.ports["http-80"], request_) as crowd,
    ):
        rejected = crowd.answered(503, CROWD - 34)
        assert_undisturbed(ghost)
        assert all(reason(one).startswith("overloaded: requests for this route hold its share") for one in rejected)
        assert any(b"Retry-After: 1\r\n" in one for one in rejected)
        assert all(b"Retry-After: " in one for one in rejected)
        assert ghost.counters()["workers"]["held"] <= 34
        assert ghost.counters()["routes"]["default/slow"]["rejections"] == len(crowd.answers(503))


def test_clients_that_come_at_once_leave_threads_to_fetches(tea):
    """Each thread of varnishd's has a client before one of them needs a fetch, be it for a rejection."""
    vcl = 'import vtc; sub vcl_recv { if (req.url == "/slow") { vtc.sleep(2s); } }'
    with (
        ScriptedOrigin(silence) as slow,
        serving(slow_and_fast(slow, tea), vcl) as ghost,
        Crowd(ghost.ports["http-80"], SLOW_REQUEST, count=2 * CROWD) as crowd,
    ):
        rejected = crowd.answered(503, 2 * CROWD - 34)
        assert any(is_from_vcl_synth(one) for one in rejected)
        assert_undisturbed(ghost)
        counters = ghost.counters()
        assert counters["routes"]["default/slow"]["rejections"] == len(crowd.answers(503))
        assert counters["routes"]["default/slow"]["status"]["5xx"] == len(crowd.answers(503))


def test_recv_outside_of_vcl_recv_leaves_varnishd_running_when_many_are_rejected(tea):
    """vcl_synth can't follow itself: ghost's 503 would take varnishd's worker down."""
    vcl = """
        import vtc;
        sub vcl_recv { if (req.url == "/slow") { vtc.sleep(1s); } if (req.url == "/again") { return (synth(700)); } }
        sub vcl_synth { if (resp.status == 700) { set req.url = "/slow"; set req.backend_hint = ghost.recv(); } }
    """
    with (
        ScriptedOrigin(silence) as slow,
        serving(slow_and_fast(slow, tea), vcl) as ghost,
        Crowd(ghost.ports["http-80"], SLOW_REQUEST, count=2 * CROWD) as crowd,
        Crowd(ghost.ports["http-80"], b"GET /again HTTP/1.1\r\nHost: a\r\n\r\n") as others,
    ):
        others.answered(700, CROWD)
        crowd.answered(503, 2 * CROWD - 34)


def test_idle_websockets_leave_workers_to_the_others_and_to_their_route(tea):
    with ScriptedOrigin(echo) as sockets, serving(slow_and_fast(sockets, tea)) as ghost:
        handshake = HANDSHAKE.replace(b"/chat", b"/slow")
        with contextlib.ExitStack() as stack:
            # One after the other: a handshake holds a second worker until it is done.
            answers = [stack.enter_context(Crowd(ghost.ports["http-80"], handshake, count=1)).one() for _ in range(40)]
            opened = sum(one.startswith(b"HTTP/1.1 101 ") for one in answers)
            assert 10 <= opened <= 20
            assert_undisturbed(ghost)
            assert {reason(one) for one in answers[opened:]} == {
                "overloaded: this route holds its share of the workers for WebSockets"
            }
            # The origin of this test upgrades whatever it gets.
            assert ghost.get("/slow").status in (101, 503)
        until(lambda: ghost.counters()["workers"]["held"] <= 1, "closed WebSockets give their workers back")


def test_piped_websockets_count_too(tea):
    with ScriptedOrigin(echo) as sockets:
        vcl = 'sub vcl_recv { if (req.url == "/slow") { return (pipe); } }'
        with serving(slow_and_fast(sockets, tea), vcl) as ghost:
            handshake = HANDSHAKE.replace(b"/chat", b"/slow")
            with Crowd(ghost.ports["http-80"], handshake) as crowd:
                crowd.answered(503, CROWD - 40)
                assert_undisturbed(ghost)


def test_clients_that_do_not_read_what_is_cached_leave_workers_to_the_others(tea):
    large = answer(200, b"x" * 8_000_000, headers=["Cache-Control: max-age=600"])
    with ScriptedOrigin(large) as origin, serving(slow_and_fast(origin, tea), CACHE_EVERYTHING) as ghost:
        assert len(ghost.get("/slow").body) == 8_000_000
        with Crowd(ghost.ports["http-80"], SLOW_REQUEST) as crowd:
            until(lambda: ghost.counters()["rejections"]["route"] > CROWD - 60, "the others are rejected")
            assert_undisturbed(ghost)
            assert "hold its share" in crowd.answered(503, 1)[0].decode()
            assert ghost.counters()["workers"]["held"] <= 36
        until(lambda: ghost.counters()["workers"]["held"] <= 1, "clients that leave give their workers back")
        assert len(ghost.get("/slow").body) == 8_000_000


def test_clients_that_do_not_read_rejections_or_404s_leave_workers_to_the_others(tea):
    """Each has thousands of requests under way, whose responses fill every buffer."""
    with ScriptedOrigin(silence) as slow, serving(slow_and_fast(slow, tea)) as ghost:
        unrouted = b"GET /%b HTTP/1.1\r\nHost: a\r\n\r\n" % (b"n" * 400)
        with Crowd(ghost.ports["http-80"], b"") as crowd:
            for connection in crowd.connections:
                with contextlib.suppress(BlockingIOError, ConnectionResetError):
                    for _ in range(100):
                        connection.send(unrouted * 100)
            until(lambda: ghost.counters()["workers"]["held"] > 20, "responses wait for their clients")
            assert_undisturbed(ghost)


def test_slow_fetches_in_the_background_leave_workers_to_the_others(tea, clock):
    """Of these there may be one for every object, and no client waits for them."""
    fresh = answer(200, b"stale", headers=["Cache-Control: max-age=1, stale-while-revalidate=600"])
    with (
        ScriptedOrigin(*[fresh] * 100, silence) as origin,
        serving(slow_and_fast(origin, tea), CACHE_EVERYTHING, environment=clock.environment) as ghost,
    ):
        paths = [f"/slow/{number}" for number in range(100)]
        assert {ghost.get(path).status for path in paths} == {200}
        clock.advance(3000)  # every object is stale
        assert {ghost.get(path).body for path in paths} == {b"stale"}
        # Of 36 workers, they leave two to a request beside the two of each request under way.
        until(lambda: len(origin.requests) >= 128, "fetches in the background go on")
        assert len(origin.requests) <= 134
        assert_undisturbed(ghost)


def test_slow_backends_of_user_vcl_leave_workers_to_routes(tea):
    with ScriptedOrigin(silence) as slow:
        vcl = f"""
            backend own {{ .host = "127.0.0.1"; .port = "{slow.endpoint.port}"; }}
            sub vcl_recv {{ if (req.url == "/slow") {{ set req.backend_hint = own; return (pass); }} }}
        """
        with serving(slow_and_fast(slow, tea), vcl) as ghost, Crowd(ghost.ports["http-80"], SLOW_REQUEST) as crowd:
            crowd.answered(503, 1)
            assert_undisturbed(ghost)


# -- whose share -----------------------------------------------------------------------


@contextlib.contextmanager
def many_slow_routes(
    fast: Origin, other_namespace: str, *, backends: int = 1
) -> Iterator[tuple[GhostHarness, list[Crowd]]]:
    """Have one client for each of many routes to so many slow backends, beside a route with another one."""
    with ScriptedOrigin(silence) as slow, contextlib.ExitStack() as stack:
        matches = [[prefix(f"/slow/{number}")] for number in range(CROWD)]
        slow_rules = [to(backend(f"slow-{n % backends}"), matches=one) for n, one in enumerate(matches)]
        routes = [namesake(f"r{number}", rule) for number, rule in enumerate(slow_rules)]
        other = namesake("fast", to(backend("fast"), matches=[prefix("/fast")]), namespace=other_namespace)
        pools = {f"slow-{number}": [slow.endpoint] for number in range(backends)}
        config = Config([*routes, other], {**pools, "fast": [fast]})
        ghost = stack.enter_context(serving(config))
        yield ghost, [stack.enter_context(one_slow_client(ghost, number)) for number in range(CROWD)]


def one_slow_client(ghost: GhostHarness, number: int) -> Crowd:
    return Crowd(ghost.ports["http-80"], SLOW_REQUEST.replace(b"/slow", b"/slow/%d" % number), count=1)


def rejections(crowds: list[Crowd]) -> int:
    return sum(len(one.answers(503)) for one in crowds)


def test_many_slow_routes_of_a_namespace_leave_workers_to_another_namespace(tea):
    # Each route has a backend of its own: the share of a backend would do it as well.
    with many_slow_routes(tea, "modest", backends=CROWD) as (ghost, crowds):
        until(lambda: rejections(crowds) >= CROWD - 68, "the others are rejected")
        assert_undisturbed(ghost)


def test_a_slow_backend_of_many_routes_leaves_workers_to_other_backends(tea):
    with many_slow_routes(tea, "default") as (ghost, crowds):
        until(lambda: rejections(crowds) >= CROWD - 40, "the others are rejected")
        assert_undisturbed(ghost)
        assert ghost.counters()["rejections"]["backend"] > 0


@pytest.mark.parametrize(
    ("shares", "why"),
    [
        (wire.WorkerShares(route_connections=3), "this route has as many connections"),
        (wire.WorkerShares(backend_connections=3), "the backend has as many connections"),
        (wire.WorkerShares(route=5), "requests for this route hold its share"),
        (wire.WorkerShares(namespace=5, route=100), "of this namespace hold its share"),
        (wire.WorkerShares(backend=5), "requests to the backend of this route hold its share"),
    ],
)
def test_a_configured_share_holds(tea, shares, why):
    with (
        ScriptedOrigin(silence) as slow,
        serving(slow_and_fast(slow, tea, shares)) as ghost,
        Crowd(ghost.ports["http-80"], SLOW_REQUEST, count=20) as crowd,
    ):
        rejected = crowd.answered(503, 16)
        assert any(why in reason(one) for one in rejected)
        assert len(slow.requests) <= 4


def test_limits_that_a_reload_changes_hold_for_routes_that_stay(tea):
    with ScriptedOrigin(silence) as slow, serving(slow_and_fast(slow, tea)) as ghost:
        strict = slow_and_fast(slow, tea, wire.WorkerShares(route_connections=3))
        assert ghost.reload(strict).status == 200
        with Crowd(ghost.ports["http-80"], SLOW_REQUEST, count=10) as crowd:
            assert "this route has as many connections" in reason(crowd.answered(503, 7)[0])
            assert len(slow.requests) <= 3


# -- what is counted -------------------------------------------------------------------


def test_a_reload_and_another_vcl_forget_nothing_that_is_held(tea):
    with ScriptedOrigin(silence) as slow, serving(slow_and_fast(slow, tea)) as ghost:
        config = slow_and_fast(slow, tea)
        with Crowd(ghost.ports["http-80"], SLOW_REQUEST, count=40) as crowd:
            crowd.answered(503, 23)
            held = ghost.counters()["workers"]["held"]
            assert ghost.reload(Config(config.routes[1:], config.pools)).status == 200
            assert ghost.reload(config).status == 200
            ghost.load_vcl("sub vcl_recv { unset req.http.Cookie; }")
            with Crowd(ghost.ports["http-80"], SLOW_REQUEST, count=5) as more:
                more.answered(503, 5)
            assert ghost.counters()["workers"]["held"] == held
    # The origin has closed its connections with the end of the test.


def test_workers_are_given_back(tea):
    with ScriptedOrigin(late(1.0, answer())) as slow, serving(slow_and_fast(slow, tea)) as ghost:
        for _ in range(3):
            with Crowd(ghost.ports["http-80"], SLOW_REQUEST) as crowd:
                until(lambda: len(crowd.answers(200)) + len(crowd.answers(503)) == CROWD, "each has an answer")
                assert 10 <= len(crowd.answers(200)) < CROWD
            until(lambda: ghost.counters()["workers"]["held"] <= 1, "nothing is held")


def test_a_rejection_is_logged_and_closes_the_connection_of_an_upload(tea):
    with (
        ScriptedOrigin(silence) as slow,
        serving(slow_and_fast(slow, tea, wire.WorkerShares(route=5))) as ghost,
        Crowd(ghost.ports["http-80"], SLOW_REQUEST, count=10) as crowd,
    ):
        crowd.answered(503, 8)
        began = time.monotonic()
        received = ghost.raw(SLOW_UPLOAD)
        assert received.startswith(b"HTTP/1.1 503 ")
        assert time.monotonic() - began < SOON  # varnishd would wait for the body, or five seconds
        assert 'ghost: 503 for route "default/slow": share route is exhausted' in ghost.output


def test_a_hit_needs_no_share_that_a_slow_backend_exhausts(tea):
    """The route's cache serves while its backend does not answer, until slow clients hold what is left."""
    kept = answer(200, b"kept", headers=["Cache-Control: max-age=600"])
    shares = wire.WorkerShares(route=50, backend=5)
    with (
        ScriptedOrigin(kept, silence) as slow,
        serving(slow_and_fast(slow, tea, shares), CACHE_EVERYTHING) as ghost,
    ):
        assert ghost.get("/slow/kept").body == b"kept"
        with contextlib.ExitStack() as stack:
            crowds = [stack.enter_context(one_slow_client(ghost, number)) for number in range(20)]
            until(lambda: rejections(crowds) >= 10, "the others are rejected")
            assert ghost.get("/slow/kept").body == b"kept"


def test_a_hit_that_is_rejected_counts_as_the_503_that_its_client_gets(tea):
    """It passes vcl_synth: varnishd can't give a hit another response."""
    big = answer(200, b"x" * (8 << 20), headers=["Cache-Control: max-age=600"])
    vcl = CACHE_EVERYTHING + "sub vcl_synth { set resp.http.X-Synth = resp.reason; }"
    with ScriptedOrigin(big) as origin, serving(slow_and_fast(origin, tea, wire.WorkerShares(route=5)), vcl) as ghost:
        assert len(ghost.get("/slow").body) == 8 << 20
        before = served(ghost)
        with Crowd(ghost.ports["http-80"], SLOW_REQUEST, count=20):
            until(lambda: served(ghost)["requests"] == before["requests"] + 20, "each is answered")
        after = served(ghost)
    rejected = after["rejections"] - before["rejections"]
    assert rejected > 10
    assert after["status"]["5xx"] - before["status"]["5xx"] == rejected
    assert after["status"]["2xx"] - before["status"]["2xx"] == 20 - rejected


def served(ghost: GhostHarness) -> Any:
    return ghost.counters()["routes"]["default/slow"]


@pytest.mark.parametrize("called", ["recv", "deliver"])
def test_user_vcl_may_prepare_the_response_of_vcl_synth_for_a_rejected_request(tea, called):
    """Ghost can't replace that response: varnishd's child would go down."""
    vcl = {
        "recv": 'sub vcl_recv { if (req.url == "/slow/denied") { return (synth(403)); } }',
        "deliver": 'sub vcl_recv { if (req.url == "/slow/kept") { return (hash); } }',
    }[called]
    vcl += "sub vcl_synth { ghost.deliver(); }"
    kept = answer(200, b"kept", headers=["Cache-Control: max-age=600"])
    with (
        ScriptedOrigin(kept, silence) as slow,
        serving(slow_and_fast(slow, tea, wire.WorkerShares(route=5)), vcl) as ghost,
    ):
        assert ghost.get("/slow/kept").body == b"kept"
        with Crowd(ghost.ports["http-80"], SLOW_REQUEST, count=10) as crowd:
            crowd.answered(503, 7)
            if called == "recv":
                assert ghost.get("/slow/denied").status == 403
            else:
                before = served(ghost)
                assert ghost.get("/slow/kept").status in (200, 503)
                assert served(ghost)["requests"] == before["requests"] + 1
            assert ghost.get("/fast").status == 200


def test_a_retry_in_vcl_gives_back_its_connection_before_it_takes_another(tea):
    """With one connection for each backend, a retry would need two."""
    vcl = "sub vcl_backend_response { if (beresp.status == 500 && bereq.retries < 3) { return (retry); } }"
    shares = wire.WorkerShares(backend_connections=1)
    with (
        ScriptedOrigin(answer(500), answer(500), answer(200)) as slow,
        serving(slow_and_fast(slow, tea, shares), vcl) as ghost,
    ):
        assert ghost.get("/slow").status == 200
        assert len(slow.requests) == 3
        assert ghost.counters()["rejections"]["backendConnections"] == 0


# -- what is cached --------------------------------------------------------------------


NO_CACHE = [("Cache-Control", "no-cache")]
FULL = [wire.WorkerShares(route=5), wire.WorkerShares(backend=5)]


@contextlib.contextmanager
def cached_and_full(tea: Origin, shares: wire.WorkerShares, **policies: Any) -> Iterator[GhostHarness]:
    """Serve a route with something in its cache, whose share is exhausted by what it fetches beside."""
    with ScriptedOrigin(answer(200, b"kept"), silence) as slow, contextlib.ExitStack() as stack:
        ghost = stack.enter_context(serving(caching([slow.endpoint], tea, shares, **policies)))
        assert ghost.get("/slow/kept").body == b"kept"
        posted = b"POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
        # The rejected ones held something for a moment, so that a few more fit now.
        for count in (30, 10):
            crowd = stack.enter_context(Crowd(ghost.ports["http-80"], posted, count=count))
            crowd.answered(503, count - 8)
        yield ghost


def caching(endpoints: list[wire.Endpoint], tea: Origin, shares: wire.WorkerShares | None, **policies: Any) -> Config:
    routes = [
        route("slow", to(backend("slow"), matches=[prefix("/slow")], cache=policy(**policies))),
        route("fast", to(backend("fast"), matches=[prefix("/fast")])),
    ]
    pools = {"slow": endpoints, "fast": [tea.endpoint]}
    return Config(routes, pools, requests=wire.RequestRules(shares=shares))


def assert_is_still_cached(ghost: GhostHarness, tea: Origin, **policies: Any) -> None:
    """Give the route everything that is left, and no endpoint: what it serves comes from the cache."""
    everything = wire.WorkerShares(namespace=100, route=100, backend=100)
    assert ghost.reload(caching([], tea, everything, **policies)).status == 200
    assert ghost.get("/slow/kept").body == b"kept"


@pytest.mark.parametrize("shares", FULL, ids=["route", "backend"])
def test_forced_validation_that_is_rejected_does_not_remove_the_object(tea, shares):
    with cached_and_full(tea, shares) as ghost:
        for _ in range(5):
            found = ghost.get("/slow/kept", headers=NO_CACHE)
            assert found.status == 503 or found.body == b"kept"
        assert_is_still_cached(ghost, tea)
        assert outcome(ghost.get("/slow/kept")) == "hit"


STALE = {"ttl": 100, "grace": 0, "stale_if_error": 60_000}


@pytest.mark.parametrize("shares", FULL, ids=["route", "backend"])
def test_stale_object_stays_while_a_share_is_exhausted(tea, shares):
    with cached_and_full(tea, shares, **STALE) as ghost:
        time.sleep(0.3)
        for _ in range(5):
            found = ghost.get("/slow/kept")
            assert found.status == 503 or found.body == b"kept"
        assert_is_still_cached(ghost, tea, **STALE)


def test_stale_object_takes_the_place_of_a_rejected_fetch(tea):
    """The share of the backend is exhausted; for a hit the route has enough."""
    with cached_and_full(tea, wire.WorkerShares(backend=5), **STALE) as ghost:
        time.sleep(0.3)
        for _ in range(5):
            found = ghost.get("/slow/kept")
            assert (found.status, found.body) == (200, b"kept")
