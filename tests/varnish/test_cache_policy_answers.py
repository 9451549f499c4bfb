"""What clients get from the cache: conditions, ranges, Cache-Status, request directives."""

import pytest

from support.http.scripted_origin import ScriptedOrigin, answer
from support.varnish.caching import outcome, parameters, policy, reason
from support.varnish.ghost import Config, backend, route, to
from varnish_gateway.ir import wire

MODIFIED = "Sun, 06 Nov 1994 08:49:37 GMT"
LATER = "Mon, 07 Nov 1994 08:49:37 GMT"

pytestmark = pytest.mark.usefixtures("empty_cache")


@pytest.fixture(scope="module")
def environment(clock):
    return clock.environment


@pytest.fixture
def origin():
    lines = ['ETag: "a,b"', f"Last-Modified: {MODIFIED}", "Cache-Control: max-age=60"]
    with ScriptedOrigin(answer(body=b"0123456789", headers=lines)) as running:
        yield running


# -- conditions and ranges -------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (("If-None-Match", '"a,b"'), 304),
        (("If-None-Match", '"x", W/"a,b"'), 304),
        (("If-None-Match", "*"), 304),
        (("If-None-Match", '"a"'), 200),
        (("If-Modified-Since", MODIFIED), 304),
        (("If-Modified-Since", LATER), 304),
        (("If-Modified-Since", "Sat, 05 Nov 1994 08:49:37 GMT"), 200),
    ],
)
@pytest.mark.parametrize("stored", [False, True])
def test_condition_is_answered_from_the_cache(ghost, serve, origin, *, header, status, stored):
    serve(origin, cache=policy())
    if stored:
        ghost.get("/page")
    found = ghost.get("/page", headers=[header])
    assert (found.status, found.body) == (status, b"" if status == 304 else b"0123456789")
    assert len(origin.requests) == 1
    assert b"If-" not in origin.requests[0]
    assert found.header("etag") == '"a,b"'


def test_precondition_is_for_the_origin(ghost, serve, origin):
    serve(origin, cache=policy())
    ghost.get("/page")
    assert outcome(ghost.get("/page", headers=[("If-Match", '"x"')])) == "request"
    assert b'If-Match: "x"' in origin.requests[1]


@pytest.mark.parametrize(
    ("condition", "status", "body"),
    [
        ((), 206, b"234"),
        ((("If-Range", '"a,b"'),), 206, b"234"),
        ((("If-Range", '"old"'),), 200, b"0123456789"),
    ],
)
def test_range_is_served_from_the_whole_object(ghost, serve, origin, *, condition, status, body):
    serve(origin, cache=policy())
    for _ in range(2):
        found = ghost.get("/page", headers=[("Range", "bytes=2-4"), *condition])
        assert (found.status, found.body) == (status, body)
    assert len(origin.requests) == 1
    assert b"Range" not in origin.requests[0]


# -- directives of requests ------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "word"),
    [
        (("Cache-Control", "no-cache"), "request-no-cache"),
        (("Pragma", "no-cache"), "request-no-cache"),
        (("Cache-Control", "max-age=0"), "request-max-age"),
        (("Cache-Control", "min-fresh=100"), "request-min-fresh"),
    ],
)
def test_client_may_force_a_validation_of_a_fresh_response(ghost, serve, header, word):
    not_modified = answer(304, b"", headers=['ETag: "a"'])
    with ScriptedOrigin(answer(headers=['ETag: "a"', "Cache-Control: max-age=60"]), not_modified) as origin:
        serve(origin, cache=policy())
        ghost.get("/page")
        forced = ghost.get("/page", headers=[header])
        assert (forced.status, forced.body) == (200, b"done")
        assert (outcome(forced), reason(forced).split()[0]) == ("request", word)
        assert b'If-None-Match: "a"' in origin.requests[1]
        assert outcome(ghost.get("/page")) == "hit"
        assert len(origin.requests) == 2


def test_policy_may_ignore_directives_of_requests(ghost, serve, origin):
    serve(origin, cache=policy(ignore_request_directives=True))
    ghost.get("/page")
    assert outcome(ghost.get("/page", headers=[("Cache-Control", "no-cache, no-store")])) == "hit"


def test_client_that_forces_too_often_gets_what_is_stored(ghost, serve, origin):
    serve(origin, cache=policy(revalidation=wire.Revalidation(per_object=2, per_route=1000)))
    ghost.get("/budget")
    # A minute may end meanwhile, which begins another budget.
    answers = [ghost.get("/budget", headers=[("Cache-Control", "no-cache")]) for _ in range(8)]
    words = [reason(one).split()[0] for one in answers]
    assert words.count("request-no-cache") in (2, 3, 4)
    assert words[-1] == "revalidation-budget"
    assert "hit" in parameters(answers[-1])


def test_only_if_cached_never_reaches_the_origin(ghost, serve, origin):
    serve(origin, cache=policy())
    only = [("Cache-Control", "only-if-cached")]
    assert ghost.get("/page", headers=only).status == 504
    assert len(origin.requests) == 0
    ghost.get("/page")
    found = ghost.get("/page", headers=only)
    assert (found.status, outcome(found), len(origin.requests)) == (200, "hit", 1)


@pytest.mark.parametrize(
    ("request_", "bypass"),
    [
        ({"method": "OPTIONS"}, {}),
        ({"body": b"a"}, {}),
        ({"headers": [("If-Match", '"a"')]}, {}),
        ({"headers": [("Cookie", "id=1")]}, {"bypass": wire.Bypass(cookies=("id",))}),
    ],
)
def test_only_if_cached_holds_for_requests_that_bypass_the_cache(ghost, serve, origin, request_, bypass):
    serve(origin, cache=policy(**bypass))
    headers = [*request_.pop("headers", ()), ("Cache-Control", "only-if-cached")]
    assert ghost.get("/page", headers=headers, **request_).status == 504
    assert len(origin.requests) == 0
    serve(origin, cache=policy(ignore_request_directives=True, **bypass))
    assert ghost.get("/page", headers=headers, **request_).status == 200
    serve(origin)
    assert ghost.get("/page", headers=headers, **request_).status == 200


def test_unsafe_request_is_written_through_although_only_if_cached(ghost, serve, origin):
    serve(origin, cache=policy())
    only = [("Cache-Control", "only-if-cached")]
    assert ghost.get("/page", method="POST", body=b"a", headers=only).status == 200
    assert ghost.get("/page", method="DELETE", headers=only).status == 200
    assert len(origin.requests) == 2


def test_no_store_of_a_client_is_honoured(ghost, serve, origin):
    serve(origin, cache=policy())
    first = ghost.get("/page", headers=[("Cache-Control", "no-store")])
    assert (outcome(first), reason(first)) == ("request", "request-no-store")
    assert "stored" not in parameters(first)
    assert outcome(ghost.get("/page")) == "uri-miss"
    assert outcome(ghost.get("/page", headers=[("Cache-Control", "no-store")])) == "hit"
    assert len(origin.requests) == 2


def test_max_stale_allows_a_stale_response(ghost, serve, clock):
    with ScriptedOrigin(answer(headers=['ETag: "a"'])) as origin:
        serve(origin, cache=policy(ttl=100, grace=0))
        ghost.get("/page")
        clock.advance(300)
        found = ghost.get("/page", headers=[("Cache-Control", "max-stale=10")])
        assert (outcome(found), reason(found), len(origin.requests)) == ("hit", "max-stale", 1)
        assert ghost.get("/page", headers=[("Cache-Control", "max-stale=0")]).status == 200
        assert len(origin.requests) == 2


def test_max_age_of_a_client_forbids_grace(ghost, serve, clock):
    with ScriptedOrigin(answer(headers=['ETag: "a"'])) as origin:
        serve(origin, cache=policy(ttl=100, grace=60_000))
        ghost.get("/page")
        clock.advance(300)
        found = ghost.get("/page", headers=[("Cache-Control", "max-age=100")])
        assert (outcome(found), len(origin.requests)) == ("stale", 2)


def test_immutable_response_is_not_validated_by_a_reload(ghost, serve):
    with ScriptedOrigin(answer(headers=['ETag: "a"', "Cache-Control: max-age=60, immutable"])) as origin:
        serve(origin, cache=policy())
        ghost.get("/page")
        found = ghost.get("/page", headers=[("Cache-Control", "max-age=0")])
        assert (outcome(found), reason(found), len(origin.requests)) == ("hit", "immutable", 1)


# -- Cache-Status ----------------------------------------------------------------------


def test_cache_status_is_off_by_default(ghost, serve, origin):
    serve(origin, cache=policy(cache_status="off"))
    assert [ghost.get("/page").values("cache-status") for _ in range(2)] == [[], []]
    assert len(origin.requests) == 1


def test_only_trusted_clients_get_cache_status(ghost, origin):
    rule = to(backend("pool"), cache=policy(cache_status="trusted"))
    for ranges, expected in ((["127.0.0.0/8"], 1), (["10.0.0.0/8"], 0)):
        requests = wire.RequestRules(trusted_ranges=tuple(ranges))
        ghost.reload(Config([route("r", rule)], {"pool": [origin.endpoint]}, requests=requests))
        assert len(ghost.get("/page").values("cache-status")) == expected
        outside = ghost.get("/page", headers=[("X-Forwarded-For", "192.0.2.1")])
        assert outside.values("cache-status") == []


def test_log_has_the_reason(ghost, serve, origin):
    serve(origin, cache=policy(cache_status="off"))
    ghost.get("/logged")
    ghost.get("/logged")
    log = ghost.log
    assert "VCL_Log        ghost-cache:uri-miss" in log
    assert "VCL_Log        ghost-cache:fresh" in log
    assert "VCL_Log        ghost-store:max-age" in log


def test_age_is_on_every_response(ghost, serve, origin):
    serve(origin, cache=policy())
    assert [ghost.get("/page").header("age") for _ in range(2)] == ["0", "0"]
