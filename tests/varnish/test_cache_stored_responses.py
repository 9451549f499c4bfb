"""What of a response is stored, and what a validation changes of it (RFC 9111, sections 3 and 4.3)."""

import time

import pytest

from support.http.scripted_origin import ScriptedOrigin, Step, answer, close, trickle
from support.varnish.caching import outcome, parameters, policy, reason
from varnish_gateway.ir import wire

MODIFIED = "Sun, 06 Nov 1994 08:49:37 GMT"


@pytest.fixture(autouse=True)
def empty(ghost) -> None:
    ghost.load_vcl()
    ghost.admin("ban", "req.url ~ .")


def raw(text: str) -> Step:
    """Send these bytes, and close when the client has got them."""
    send = trickle([text.replace("\n", "\r\n").encode()], 0.3)

    def step(*arguments) -> bool:
        send(*arguments)
        return False

    return step


# -- statuses --------------------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 203, 204, 300, 301, 308, 404, 405, 410, 414])
def test_response_with_a_usual_status_needs_no_stated_lifetime(ghost, serve, status):
    with ScriptedOrigin(answer(status, b"")) as origin:
        serve(origin, cache=policy())
        assert [ghost.get("/page").status for _ in range(2)] == [status, status]
        assert len(origin.requests) == 1


@pytest.mark.parametrize("status", [201, 299, 302, 303, 307, 400, 403, 429, 499, 501, 503, 599])
def test_response_with_another_status_needs_a_stated_lifetime(ghost, serve, status):
    with ScriptedOrigin(answer(status, b""), answer(status, b"", headers=["Cache-Control: max-age=60"])) as origin:
        serve(origin, cache=policy())
        assert [ghost.get("/page").status for _ in range(3)] == [status] * 3
        assert len(origin.requests) == 2


# -- fields ----------------------------------------------------------------------------


def test_unknown_and_repeated_fields_are_stored(ghost, serve):
    with ScriptedOrigin(answer(headers=["X-Unknown: 1", "X-Unknown: 2", "Link: </a>", "Server: tea"])) as origin:
        serve(origin, cache=policy())
        for _ in range(2):
            found = ghost.get("/page")
            assert [found.values(name) for name in ("x-unknown", "link", "server")] == [["1", "2"], ["</a>"], ["tea"]]
        assert len(origin.requests) == 1


def test_fields_of_the_connection_and_of_proxies_are_not_stored(ghost, serve):
    own = ["Connection: X-Hop, keep-alive", "X-Hop: 1", "Keep-Alive: timeout=5", "Proxy-Authenticate: Basic"]
    with ScriptedOrigin(answer(headers=[*own, "Proxy-Authentication-Info: x", "X-Other: 1"])) as origin:
        serve(origin, cache=policy())
        for _ in range(2):
            found = ghost.get("/page")
            names = ("x-hop", "keep-alive", "proxy-authenticate", "proxy-authentication-info", "x-other")
            assert [found.header(name) for name in names] == [None, None, None, None, "1"]
        assert len(origin.requests) == 1


def test_response_with_trailer_fields_fails_and_is_not_stored(ghost, serve):
    """The gateway doesn't read them; they must not become header fields."""
    chunked = raw("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\nTrailer: X-T\n\n4\ndone\n0\nX-T: 1\n\n")
    with ScriptedOrigin(chunked, answer()) as origin:
        serve(origin, cache=policy())
        assert ghost.raw(b"GET /page HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").count(b"X-T: 1") == 0
        found = ghost.get("/page")
        assert (found.body, found.header("x-t"), len(origin.requests)) == (b"done", None, 2)


# -- incomplete responses --------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "HTTP/1.1 200 OK\nContent-Length: 10\n\n01234",
        "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n5\n01234\n",
        "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\na\n01234",
    ],
)
def test_incomplete_response_is_neither_complete_nor_stored(ghost, serve, text):
    with ScriptedOrigin(raw(text), answer()) as origin:
        serve(origin, cache=policy())
        received = ghost.raw(b"GET /page HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        head, _, body = received.partition(b"\r\n\r\n")
        is_error = head.startswith(b"HTTP/1.1 503")
        assert is_error or (len(body) < 10 if b"Content-Length: 10" in head else not body.endswith(b"0\r\n\r\n"))
        found = ghost.get("/page")
        assert (found.status, found.body, len(origin.requests)) == (200, b"done", 2)


def test_content_range_of_another_status_is_ignored(ghost, serve):
    with ScriptedOrigin(answer(headers=["Content-Range: bytes 0-1/9"])) as origin:
        serve(origin, cache=policy())
        for _ in range(2):
            found = ghost.get("/page")
            assert (found.status, found.body, found.header("content-range")) == (200, b"done", None)
        assert len(origin.requests) == 1


def test_part_that_was_not_asked_for_is_not_stored(ghost, serve):
    part = answer(206, b"01234", headers=["Content-Range: bytes 0-4/10", "Cache-Control: max-age=60"])
    with ScriptedOrigin(part, answer(body=b"0123456789")) as origin:
        serve(origin, cache=policy())
        ghost.get("/page")
        found = ghost.get("/page")
        assert (found.status, found.body, len(origin.requests)) == (200, b"0123456789", 2)


# -- validation ------------------------------------------------------------------------


def test_both_validators_are_sent(ghost, serve):
    step = answer(headers=['ETag: "a"', f"Last-Modified: {MODIFIED}", "Cache-Control: max-age=0"])
    with ScriptedOrigin(step) as origin:
        serve(origin, cache=policy())
        for _ in range(2):
            ghost.get("/page")
        assert b'If-None-Match: "a"' in origin.requests[1]
        assert f"If-Modified-Since: {MODIFIED}".encode() in origin.requests[1]


def test_fields_of_a_304_replace_stored_ones_but_not_those_of_the_body(ghost, serve):
    stored = ['ETag: "a"', "Cache-Control: max-age=0", "X-A: 1", "X-A: 2", "X-Kept: 1", "Content-Type: text/plain"]
    new = ['ETag: "a"', "Cache-Control: max-age=60", "X-A: 3", "Content-Type: text/html", "Content-Range: bytes 0-1/9"]
    with ScriptedOrigin(answer(headers=stored), answer(304, b"", headers=[*new, "Content-Encoding: br"])) as origin:
        serve(origin, cache=policy())
        ghost.get("/page")
        for _ in range(2):
            found = ghost.get("/page")
            assert (found.status, found.body, found.header("content-length")) == (200, b"done", "4")
            names = ("x-a", "x-kept", "content-type", "cache-control", "content-encoding", "content-range")
            expected = [["3"], ["1"], ["text/html"], ["max-age=60"], [], []]
            assert [found.values(name) for name in names] == expected
        assert len(origin.requests) == 2


def test_full_response_to_a_validation_replaces_what_is_stored(ghost, serve):
    first = answer(body=b"old", headers=['ETag: "a"', "Cache-Control: max-age=0", "X-Old: 1"])
    with ScriptedOrigin(first, answer(body=b"new", headers=['ETag: "b"', "Cache-Control: max-age=60"])) as origin:
        serve(origin, cache=policy())
        answers = [ghost.get("/page") for _ in range(3)]
        assert [one.body for one in answers] == [b"old", b"new", b"new"]
        assert [one.header("x-old") for one in answers] == ["1", None, None]
        assert len(origin.requests) == 2


def test_304_for_another_entity_tag_changes_nothing_of_what_is_stored(ghost, serve):
    stored = answer(body=b"old", headers=['ETag: "a"', "Cache-Control: max-age=0"])
    other = answer(304, b"", headers=['ETag: "b"', "Cache-Control: max-age=60"])
    with ScriptedOrigin(stored, other, answer(body=b"new", headers=['ETag: "b"'])) as origin:
        serve(origin, cache=policy())
        ghost.get("/page")
        found = ghost.get("/page")
        assert (found.status, found.body, found.header("etag")) == (200, b"new", '"b"')
        assert b"If-None-Match" not in origin.requests[2]
        assert ghost.get("/page").body == b"new"
        assert len(origin.requests) == 3


def test_304_without_validators_updates_what_is_stored(ghost, serve):
    first = answer(headers=['ETag: "a"', "Cache-Control: max-age=0"])
    with ScriptedOrigin(first, answer(304, b"", headers=["Cache-Control: max-age=60"])) as origin:
        serve(origin, cache=policy())
        answers = [ghost.get("/page") for _ in range(3)]
        assert [(one.status, one.body, one.header("etag")) for one in answers] == [(200, b"done", '"a"')] * 3
        assert len(origin.requests) == 2


def test_response_with_another_status_is_replaced_and_not_validated(ghost, serve):
    with ScriptedOrigin(answer(404, headers=['ETag: "a"', "Cache-Control: max-age=0"])) as origin:
        serve(origin, cache=policy())
        assert [ghost.get("/page").status for _ in range(2)] == [404, 404]
        assert [b"If-None-Match" in request for request in origin.requests] == [False, False]


def test_stale_if_error_of_a_request_has_no_effect(ghost, serve):
    with ScriptedOrigin(answer(headers=['ETag: "a"', "Cache-Control: max-age=0"]), answer(500)) as origin:
        serve(origin, cache=policy())
        ghost.get("/page")
        assert ghost.get("/page", headers=[("Cache-Control", "stale-if-error=60")]).status == 500


def test_error_in_a_validation_is_forwarded_without_a_window(ghost, serve):
    with ScriptedOrigin(answer(headers=['ETag: "a"', "Cache-Control: max-age=0"]), answer(500), close) as origin:
        serve(origin, cache=policy())
        assert [ghost.get("/page").status for _ in range(3)] == [200, 500, 502]


def test_newest_of_several_matching_responses_is_used(ghost, serve):
    """The first varies and the second doesn't: both match a request with the header of the first."""
    first = answer(body=b"first", headers=["Vary: X-A", "Cache-Control: max-age=60"])
    with ScriptedOrigin(first, answer(body=b"second", headers=["Cache-Control: max-age=60"])) as origin:
        serve(origin, cache=policy())
        bodies = [ghost.get("/page", headers=[("X-A", value)]).body for value in ("1", "2", "1")]
        assert bodies == [b"first", b"second", b"second"]
        assert len(origin.requests) == 2


def test_stale_response_without_a_window_is_not_served(ghost, serve):
    with ScriptedOrigin(answer(headers=["Cache-Control: max-age=1", "X-N: 1"]), answer(headers=["X-N: 2"])) as origin:
        serve(origin, cache=policy(grace=0))
        ghost.get("/page")
        time.sleep(1.1)
        found = ghost.get("/page")
        assert (found.header("x-n"), outcome(found), len(origin.requests)) == ("2", "uri-miss", 2)


# -- Cache-Status ----------------------------------------------------------------------


def test_cache_status_of_other_caches_comes_first(ghost, serve):
    with ScriptedOrigin(answer(headers=["Cache-Status: inner; hit"])) as origin:
        serve(origin, cache=policy())
        for expected in ("varnish-gateway; fwd=uri-miss", "varnish-gateway; hit"):
            inner, own = ghost.get("/page").values("cache-status")
            assert inner == "inner; hit"
            assert own.startswith(expected)


def test_lifetime_in_cache_status_is_that_which_is_left(ghost, serve):
    with ScriptedOrigin(answer(headers=["Cache-Control: max-age=60", "Age: 20"])) as origin:
        serve(origin, cache=policy())
        found = ghost.get("/page")
        assert reason(found) == "uri-miss max-age"
        assert 38 <= int(parameters(found)["ttl"]) <= 40


def key(ghost, target, *headers):
    return parameters(ghost.get(target, headers=headers))["key"]


def test_key_in_cache_status_tells_requests_apart(ghost, serve):
    with ScriptedOrigin(answer()) as origin:
        serve(origin, cache=policy(cache_key=wire.CacheKey(query_parameters=wire.QueryParameters(exclude=("utm_*",)))))
        assert key(ghost, "/page?b=2&a=1&utm_source=x") == key(ghost, "/page?a=1&b=2")
        assert key(ghost, "/page?a=1") != key(ghost, "/page?a=2")
        assert "/page" in key(ghost, "/page")


def test_key_in_cache_status_hides_values_of_cookies_and_headers(ghost, serve):
    """A script of the page may read the response, but not a cookie with HttpOnly."""
    with ScriptedOrigin(answer()) as origin:
        serve(origin, cache=policy(cache_key=wire.CacheKey(cookies=("id",), headers=("X-Key",))))
        first = key(ghost, "/page", ("Cookie", "id=secret"), ("X-Key", "hidden"))
        assert first == key(ghost, "/page", ("Cookie", "id=secret"), ("X-Key", "hidden"))
        assert first != key(ghost, "/page", ("Cookie", "id=other"), ("X-Key", "hidden"))
        assert "secret" not in first
        assert "hidden" not in first


def test_key_in_cache_status_is_bounded(ghost, serve):
    with ScriptedOrigin(answer()) as origin:
        serve(origin, cache=policy())
        assert len(key(ghost, "/" + "a" * 2000)) == 256
