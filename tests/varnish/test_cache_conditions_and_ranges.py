"""What clients get for conditions, ranges and HEAD, and which fields their answers have (RFC 9110)."""

import gzip
from email.utils import formatdate

import pytest

from support.http.scripted_origin import ScriptedOrigin, answer
from support.varnish.caching import outcome, policy

BODY = b"0123456789"
EXPIRES = "Thu, 01 Jan 2099 00:00:00 GMT"
LATER = "Mon, 07 Nov 1994 08:49:37 GMT"
MODIFIED = "Sun, 06 Nov 1994 08:49:37 GMT"


@pytest.fixture
def origin():
    lines = ['ETag: "a"', f"Date: {formatdate(usegmt=True)}", f"Last-Modified: {MODIFIED}", f"Expires: {EXPIRES}"]
    lines += ["Cache-Control: max-age=60", "Content-Location: /other", "Vary: X-A"]
    with ScriptedOrigin(answer(body=BODY, headers=lines)) as running:
        yield running


@pytest.fixture(autouse=True)
def empty(ghost) -> None:
    ghost.load_vcl()
    ghost.admin("ban", "req.url ~ .")


# -- conditions ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([("If-None-Match", '"x"'), ("If-Modified-Since", LATER)], 200),
        ([("If-None-Match", '"a"'), ("If-Modified-Since", "Sat, 05 Nov 1994 08:49:37 GMT")], 304),
        ([("If-Modified-Since", "soon")], 200),
        ([("If-Modified-Since", "Sunday, 06-Nov-94 08:49:37 GMT")], 304),
        ([("If-None-Match", '"a"'), ("Range", "bytes=0-1")], 304),
        ([("If-None-Match", '"x"'), ("Range", "bytes=0-1")], 206),
    ],
)
def test_conditions_have_their_order(ghost, serve, origin, *, headers, status):
    serve(origin, cache=policy())
    ghost.get("/page")
    assert ghost.get("/page", headers=headers).status == status
    assert len(origin.requests) == 1


@pytest.mark.parametrize("status", [301, 404, 503])
def test_condition_does_not_apply_to_other_statuses(ghost, serve, status):
    with ScriptedOrigin(answer(status, headers=['ETag: "a"', "Cache-Control: max-age=60"])) as origin:
        serve(origin, cache=policy())
        for _ in range(2):
            assert ghost.get("/page", headers=[("If-None-Match", '"a"')]).status == status
        assert len(origin.requests) == 1


@pytest.mark.parametrize("name", ["If-Match", "If-Unmodified-Since"])
def test_precondition_of_an_origin_is_forwarded_and_its_answer_too(ghost, serve, name):
    with ScriptedOrigin(answer(headers=["Cache-Control: max-age=60"]), answer(412)) as origin:
        serve(origin, cache=policy())
        ghost.get("/page")
        found = ghost.get("/page", headers=[(name, MODIFIED)])
        assert (found.status, outcome(found)) == (412, "request")
        assert f"{name}: {MODIFIED}".encode() in origin.requests[1]
        assert outcome(ghost.get("/page")) == "hit"


@pytest.mark.parametrize(
    ("headers", "status"), [([("If-None-Match", '"a"')], 304), ([("Range", "bytes=1-2")], 206), ([], 200)]
)
def test_answer_from_the_cache_has_the_fields_of_a_200(ghost, serve, origin, *, headers, status):
    serve(origin, cache=policy())
    date = ghost.get("/page").header("date")
    found = ghost.get("/page", headers=headers)
    names = ("etag", "date", "cache-control", "expires", "content-location", "vary")
    assert found.status == status
    assert [found.header(name) for name in names] == ['"a"', date, "max-age=60", EXPIRES, "/other", "X-A"]
    assert found.header("age") is not None


# -- ranges ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "status", "body", "content_range"),
    [
        ("bytes=0-0", 206, b"0", "bytes 0-0/10"),
        ("bytes=7-", 206, b"789", "bytes 7-9/10"),
        ("bytes=-3", 206, b"789", "bytes 7-9/10"),
        ("bytes=5-99", 206, b"56789", "bytes 5-9/10"),
        ("bytes=10-", 416, None, "bytes */10"),
        ("bytes=0-1,3-4", 200, BODY, None),
        ("bytes=5-2", 200, BODY, None),
        ("lines=0-1", 200, BODY, None),
    ],
)
def test_range_is_served_or_ignored(ghost, serve, origin, *, asked, status, body, content_range):
    serve(origin, cache=policy())
    ghost.get("/page")
    found = ghost.get("/page", headers=[("Range", asked)])
    assert (found.status, found.header("content-range")) == (status, content_range)
    assert body is None or found.body == body
    assert len(origin.requests) == 1


@pytest.mark.parametrize(
    ("named", "status"),
    [('"a"', 206), ('W/"a"', 200), ('"b"', 200), (MODIFIED, 206), (LATER, 200), ("soon", 200)],
)
def test_if_range_needs_a_strong_match(ghost, serve, origin, named, status):
    serve(origin, cache=policy())
    ghost.get("/page")
    assert ghost.get("/page", headers=[("Range", "bytes=1-2"), ("If-Range", named)]).status == status


def test_range_of_a_head_request_or_of_an_error_is_ignored(ghost, serve, origin):
    serve(origin, cache=policy())
    ghost.get("/page")
    assert ghost.get("/page", method="HEAD", headers=[("Range", "bytes=1-2")]).status == 200
    with ScriptedOrigin(answer(404, BODY)) as missing:
        serve(missing, cache=policy())
        for _ in range(2):
            assert ghost.get("/missing", headers=[("Range", "bytes=1-2")]).status == 404


# -- HEAD ------------------------------------------------------------------------------


def test_head_is_fetched_as_get_and_stored(ghost, serve, origin):
    serve(origin, cache=policy())
    head = ghost.get("/page", method="HEAD")
    assert (head.status, head.body, head.header("content-length")) == (200, b"", "10")
    assert origin.requests[0].startswith(b"GET ")
    assert (ghost.get("/page").body, len(origin.requests)) == (BODY, 1)


def test_condition_of_a_head_request_is_answered_from_the_cache(ghost, serve, origin):
    serve(origin, cache=policy())
    for _ in range(2):
        assert ghost.get("/page", method="HEAD", headers=[("If-None-Match", '"a"')]).status == 304
    assert len(origin.requests) == 1


# -- content coding --------------------------------------------------------------------


def test_entity_tag_is_weak_where_the_gateway_changed_the_coding(ghost, serve):
    lines = ['ETag: "a"', "Content-Type: text/plain"]
    with ScriptedOrigin(answer(body=BODY, headers=lines)) as origin:
        serve(origin, cache=policy(gzip=True))
        zipped = ghost.get("/page", headers=[("Accept-Encoding", "gzip")])
        assert (zipped.header("etag"), gzip.decompress(zipped.body)) == ('W/"a"', BODY)
        assert "accept-encoding" in (zipped.header("vary") or "").lower()
        assert ghost.get("/page").header("etag") == 'W/"a"'
        found = ghost.get("/page", headers=[("If-None-Match", '"a"'), ("Accept-Encoding", "gzip")])
        assert found.status == 304


def test_accept_encoding_selects_no_response(ghost, serve):
    """Every origin is asked for gzip, whatever the client accepts."""
    with ScriptedOrigin(answer(headers=["Vary: Accept-Encoding"])) as origin:
        serve(origin, cache=policy())
        for accepted in ([("Accept-Encoding", "gzip")], [("Accept-Encoding", "br")], []):
            assert ghost.get("/page", headers=accepted).body == b"done"
        assert len(origin.requests) == 1
        assert b"Accept-Encoding: gzip" in origin.requests[0]


def test_no_transform_does_not_cover_what_a_client_cannot_decode(ghost, serve):
    lines = ["Content-Encoding: gzip", "Cache-Control: no-transform", "Content-Type: text/plain"]
    with ScriptedOrigin(answer(body=gzip.compress(BODY), headers=lines)) as origin:
        serve(origin, cache=policy())
        assert ghost.get("/page").body == BODY
        zipped = ghost.get("/page", headers=[("Accept-Encoding", "gzip")])
        assert (zipped.header("content-encoding"), gzip.decompress(zipped.body)) == ("gzip", BODY)


def test_no_transform_of_a_request_has_no_effect(ghost, serve):
    with ScriptedOrigin(answer(body=BODY, headers=["Content-Type: text/plain"])) as origin:
        serve(origin, cache=policy(gzip=True))
        headers = [("Cache-Control", "no-transform"), ("Accept-Encoding", "gzip")]
        assert ghost.get("/page", headers=headers).header("content-encoding") == "gzip"


# -- methods ---------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY", "FROB"])
def test_other_methods_reach_the_origin_and_their_responses_are_not_stored(ghost, serve, method):
    with ScriptedOrigin(answer(headers=["Cache-Control: public, max-age=60"])) as origin:
        serve(origin, cache=policy())
        for number in range(2):
            found = ghost.get("/page", method=method)
            assert (found.status, outcome(found)) == (200, "method")
            assert origin.requests[number].startswith(f"{method} ".encode())
        assert outcome(ghost.get("/page")) == "uri-miss"
