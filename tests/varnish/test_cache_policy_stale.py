"""A stale response in place of an error, and user VCL that handles errors as before."""

import contextlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.http.scripted_origin import ScriptedOrigin, answer, close, reset
from support.varnish.caching import outcome, parameters, policy, reason
from support.varnish.ghost import Config, backend, refusing_endpoint, route, to
from support.waiting import until

HANDLERS = """
sub vcl_backend_error { set beresp.http.X-Error = "user"; set beresp.status = 599; return (deliver); }
sub vcl_synth { set resp.http.X-Synth = "user"; return (deliver); }
"""
FRESH = answer(headers=["X-Fresh: 1"])
WINDOW = {"ttl": 100, "grace": 0, "stale_if_error": 60_000}

pytestmark = pytest.mark.usefixtures("empty_cache")


@pytest.fixture(scope="module")
def environment(clock):
    return clock.environment


@pytest.fixture
def user_vcl() -> str:
    return HANDLERS


def routes(**fields):
    return [route("r", to(backend("pool"), cache=policy(**{**WINDOW, **fields})))]


@pytest.fixture
def stored(ghost, clock):
    """Store a response and let its lifetime end."""

    @contextlib.contextmanager
    def store(*steps, **fields):
        with ScriptedOrigin(FRESH, *steps) as origin:
            ghost.reload(Config(routes(**fields), {"pool": [origin.endpoint]}))
            assert ghost.get("/page").status == 200
            clock.advance(300)
            yield origin

    return store


def check_stale(found) -> None:
    assert (found.status, found.body, found.header("x-fresh")) == (200, b"done", "1")
    assert (outcome(found), reason(found)) == ("hit", "stale-if-error")
    assert int(parameters(found)["ttl"]) < 0
    assert (found.header("x-error"), found.header("x-synth")) == (None, None)


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_stale_response_is_served_in_place_of_an_error(ghost, status, stored):
    with stored(answer(status)) as origin:
        check_stale(ghost.get("/page"))
        check_stale(ghost.get("/page"))
        assert len(origin.requests) == 2, "the origin is left alone for some seconds"


@pytest.mark.parametrize("step", [close, reset])
def test_stale_response_is_served_where_the_connection_breaks(ghost, step, stored):
    with stored(step):
        check_stale(ghost.get("/page"))


def test_stale_response_is_served_without_a_single_backend(ghost, stored):
    with stored():
        ghost.reload(Config(routes(), {"pool": [refusing_endpoint()]}))
        check_stale(ghost.get("/page"))
        ghost.admin("ban", "req.url ~ .")
    with stored():
        ghost.reload(Config(routes(), {"pool": []}))
        check_stale(ghost.get("/page"))


def test_age_goes_on(ghost, stored, clock):
    with stored(answer(500)):
        clock.advance(1000)
        found = ghost.get("/page")
        check_stale(found)
        assert int(found.header("age")) >= 1


def test_everyone_who_waits_gets_the_stale_response(ghost, stored):
    with stored(answer(500)) as origin, ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda _: ghost.get("/page"), range(10)))
        for found in answers:
            check_stale(found)
        assert len(origin.requests) == 2


def test_window_of_the_origin_counts(ghost):
    step = answer(headers=["Cache-Control: max-age=0, stale-if-error=60", "X-Fresh: 1"])
    with ScriptedOrigin(step, answer(500)) as origin:
        ghost.reload(Config(routes(stale_if_error=0), {"pool": [origin.endpoint]}))
        ghost.get("/page")
        check_stale(ghost.get("/page"))


@pytest.mark.parametrize("control", ["must-revalidate, max-age=0", "no-cache", "proxy-revalidate, max-age=0"])
def test_response_that_must_be_validated_is_not_served_stale(ghost, control):
    step = answer(headers=[f"Cache-Control: {control}", 'ETag: "a"'])
    with ScriptedOrigin(step, answer(500)) as origin:
        ghost.reload(Config(routes(), {"pool": [origin.endpoint]}))
        ghost.get("/page")
        assert ghost.get("/page").status == 500


def test_after_the_window_the_error_is_served(ghost, stored):
    with stored(answer(500), stale_if_error=100):
        assert ghost.get("/page").status == 500


def test_stored_error_is_no_answer_to_an_error(ghost):
    step = answer(503, headers=["Cache-Control: max-age=0", 'ETag: "a"'])
    with ScriptedOrigin(step, answer(500)) as origin:
        ghost.reload(Config(routes(), {"pool": [origin.endpoint]}))
        assert [ghost.get("/page").status for _ in range(2)] == [503, 500]


def test_recovered_origin_is_asked_again(ghost, stored, clock):
    with stored(answer(500), answer(headers=["X-Fresh: 2"])):
        check_stale(ghost.get("/page"))
        clock.advance(6000)
        with ghost.client(address="127.0.0.2") as other:
            until(lambda: other.get("/page").header("x-fresh") == "2", "the origin's new response is served")


def test_failed_validation_that_a_client_forced_leaves_the_fresh_response(ghost):
    with ScriptedOrigin(answer(headers=["Cache-Control: max-age=60"]), answer(500)) as origin:
        ghost.reload(Config(routes(), {"pool": [origin.endpoint]}))
        ghost.get("/page")
        found = ghost.get("/page", headers=[("Cache-Control", "no-cache")])
        assert (found.status, outcome(found), len(origin.requests)) == (200, "hit", 2)


def test_error_in_the_background_leaves_the_response_in_grace(ghost, stored):
    with stored(answer(500), grace=60_000, stale_if_error=0) as origin:
        assert reason(ghost.get("/page")) == "stale-while-revalidate"
        until(lambda: len(origin.requests) == 2, "the refresh has failed")
        for _ in range(5):
            assert ghost.get("/page").header("x-fresh") == "1"
        assert len(origin.requests) == 2


def test_client_that_makes_the_origin_fail_does_not_keep_others_from_a_refresh(ghost, clock, stored):
    """Its requests have a header that the origin can't stand. The other client has another address."""

    def by_header(connection, stop):
        bad = b"X-Bad" in origin.requests[-1]
        return answer(500)(connection, stop) if bad else answer(headers=["X-Fresh: 2"])(connection, stop)

    with stored(by_header) as origin, ghost.client(address="127.0.0.2") as other:
        for control in ("max-age=60", "no-cache", "max-stale=0"):
            found = ghost.get("/page", headers=[("X-Bad", "1"), ("Cache-Control", control)])
            assert (found.status, found.header("x-fresh")) == (200, "1")
            clock.advance(4_500)
        assert len(origin.requests) == 2, "only the first of these requests reached the origin"
        until(lambda: other.get("/page").header("x-fresh") == "2", "the response is fresh", seconds=3)


def test_client_that_made_the_origin_fail_refreshes_in_the_end(ghost, clock, stored):
    with stored(answer(500), answer(headers=["X-Fresh: 2"])) as origin:
        check_stale(ghost.get("/page"))
        clock.advance(6_000)
        assert ghost.get("/page").header("x-fresh") == "1"
        assert len(origin.requests) == 2
        clock.advance(10_000)
        until(lambda: ghost.get("/page").header("x-fresh") == "2", "the response is fresh", seconds=3)


def test_client_that_made_the_origin_fail_refreshes_other_objects(ghost, clock):
    """Objects share the memory for failures, which so many failures fill by a quarter."""

    def by_target(connection, stop):
        request = origin.requests[-1]
        if b"X-Bad" in request:
            return answer(500)(connection, stop)
        window = "stale-if-error" if b"/bad" in request else "stale-while-revalidate"
        return answer(headers=[f"Cache-Control: max-age=1, {window}=60"])(connection, stop)

    bad, others = ([f"/{kind}-{number}" for number in range(most)] for kind, most in (("bad", 300), ("other", 60)))
    with ScriptedOrigin(by_target) as origin, ghost.client() as client:
        ghost.reload(
            Config(routes(grace=None, stale_while_revalidate=0, stale_if_error=0), {"pool": [origin.endpoint]})
        )
        for path in bad + others:
            client.get(path)
        clock.advance(2_000)
        for path in bad:
            assert reason(client.get(path, headers=[("X-Bad", "1")])) == "stale-if-error"
        before = len(origin.requests)
        assert {reason(client.get(path)) for path in others} == {"stale-while-revalidate"}
        until(lambda: len(origin.requests) == before + len(others), "each of the others is refreshed")


# -- user VCL --------------------------------------------------------------------------


def test_user_handles_errors_without_a_stale_response(ghost):
    """Every other case: no object, a policy without a window, a rule without a policy."""
    for cache in (policy(**WINDOW), policy(**{**WINDOW, "stale_if_error": 0}), None):
        rule = to(backend("pool"), cache=cache)
        ghost.reload(Config([route("r", rule)], {"pool": [refusing_endpoint()]}))
        found = ghost.get("/never-stored")
        assert (found.status, found.header("x-error")) == (599, "user")


def test_user_synth_runs_as_before(ghost, stored):
    ghost.load_vcl(
        HANDLERS
        + """
        sub vcl_recv { if (req.url == "/recv") { return (synth(503)); } }
        sub vcl_miss { if (req.http.X-Synth) { return (synth(503, "mine")); } }
        sub vcl_deliver { if (req.http.X-Deliver) { return (synth(503, "mine")); } }
        """
    )
    with stored(answer(500)):
        for request in ({"path": "/recv"}, {"headers": [("X-Synth", "1")]}, {"headers": [("X-Deliver", "1")]}):
            found = ghost.get(request.pop("path", "/page"), **request)
            assert (found.status, found.header("x-synth")) == (503, "user")


def test_abandoned_fetch_without_a_stale_response_is_the_users(ghost):
    ghost.load_vcl(HANDLERS + "sub vcl_backend_response { return (abandon); }")
    with ScriptedOrigin(FRESH) as origin:
        ghost.reload(Config(routes(), {"pool": [origin.endpoint]}))
        found = ghost.get("/page")
        assert (found.status, found.header("x-synth")) == (503, "user")
        assert len(origin.requests) == 1
