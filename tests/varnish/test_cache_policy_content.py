"""What becomes of a response before it is stored: cookies, variants, compression, includes."""

import gzip

import pytest

from support.http.scripted_origin import ScriptedOrigin, answer, trickle
from support.varnish.caching import outcome, parameters, policy, reason
from support.varnish.ghost import Config, backend, prefix, route, to
from varnish_gateway.ir import wire

SETTING = wire.Filters(request=wire.HeaderModifier(set=(wire.Header(name="x-mode", value="fixed"),)))
REMOVING = wire.Filters(request=wire.HeaderModifier(remove=("X-MODE",)))

pytestmark = pytest.mark.usefixtures("empty_cache")


def test_set_cookie_may_be_removed(ghost, serve):
    with ScriptedOrigin(answer(headers=["Set-Cookie: a=1", "Set-Cookie: b=2"])) as origin:
        serve(origin, cache=policy(set_cookie="remove"))
        assert [ghost.get("/page").values("set-cookie") for _ in range(2)] == [[], []]
        assert len(origin.requests) == 1


def test_fields_that_the_origin_restricts_are_not_shared(ghost, serve):
    lines = ['Cache-Control: max-age=60, private="X-User, Set-Cookie"', "X-User: me", "Set-Cookie: a=1", "X-Other: 1"]
    with ScriptedOrigin(answer(headers=lines)) as origin:
        serve(origin, cache=policy())
        for _ in range(2):
            found = ghost.get("/page")
            assert (found.header("x-user"), found.header("set-cookie"), found.header("x-other")) == (None, None, "1")
        assert len(origin.requests) == 1


@pytest.mark.parametrize(
    ("exact", "one", "other", "shared"),
    [
        (False, "de, fr;q=0.5", "fr;q=0.5,de", True),
        (False, "de", "DE", True),
        (False, "de", "fr", False),
        (True, "de, fr;q=0.5", "fr;q=0.5,de", False),
        (True, "de", "de", True),
    ],
)
def test_variants_are_compared_by_meaning(ghost, serve, *, exact, one, other, shared):
    with ScriptedOrigin(answer(headers=["Vary: Accept-Language"])) as origin:
        serve(origin, cache=policy(exact_vary=exact))
        ghost.get("/page", headers=[("Accept-Language", one)])
        second = ghost.get("/page", headers=[("Accept-Language", other)])
        assert outcome(second) == ("hit" if shared else "vary-miss")
        assert len(origin.requests) == (1 if shared else 2)
        # Both variants stay.
        assert outcome(ghost.get("/page", headers=[("Accept-Language", one)])) == "hit"
        assert outcome(ghost.get("/page", headers=[("Accept-Language", other)])) == "hit"


def test_several_lines_of_vary_count(ghost, serve):
    with ScriptedOrigin(answer(headers=["Vary: X-A", "Vary: X-B"])) as origin:
        serve(origin, cache=policy())
        for headers, expected in [
            ([("X-A", "1")], "uri-miss"),
            ([("X-A", "1"), ("X-B", "1")], "vary-miss"),
            ([("X-A", "1")], "hit"),
        ]:
            assert outcome(ghost.get("/page", headers=headers)) == expected


@pytest.mark.parametrize(
    ("vary", "fields"),
    [
        ("Cookie", {"cache": policy(request_cookies="remove")}),
        ("X-Forwarded-Host", {"cache": policy()}),
        ("X-Mode", {"cache": policy(), "filters": SETTING}),
        ("X-Mode", {"cache": policy(), "filters": REMOVING}),
    ],
)
def test_header_that_the_origin_does_not_get_makes_no_variant(ghost, serve, vary, fields):
    with ScriptedOrigin(answer(headers=[f"Vary: {vary}"])) as origin:
        serve(origin, **fields)
        found = [outcome(ghost.get("/page", headers=[(vary, value)])) for value in ("a=1", "b=2")]
        found.append(outcome(ghost.get("/page")))
        assert found == ["uri-miss", "hit", "hit"]


def test_repeated_header_that_varies_is_neither_stored_nor_answered_from_the_cache(ghost, serve):
    """Of each header, varnishd records the first line; the origin may go by the last one."""
    with ScriptedOrigin(answer(headers=["Vary: X-Lang"])) as origin:
        serve(origin, cache=policy())
        repeated, once = [("X-Lang", "en"), ("X-Lang", "fr")], [("X-Lang", "en")]
        found = ghost.get("/page", headers=repeated)
        assert (outcome(found), reason(found)) == ("uri-miss", "uri-miss vary-repeated")
        later = [outcome(ghost.get("/page", headers=each)) for each in (once, once, repeated)]
        assert later[1:] == ["hit", "vary-miss"]


@pytest.mark.parametrize(
    ("lines", "compressed"),
    [
        (["Content-Type: text/html; charset=utf-8"], True),
        (["Content-Type: application/problem+json"], True),
        (["Content-Type: image/png"], False),
        (["Content-Type: text/html", "Cache-Control: no-transform"], False),
    ],
)
def test_text_is_compressed_once(ghost, serve, lines, compressed):
    body = b"tea " * 1000
    with ScriptedOrigin(answer(body=body, headers=lines)) as origin:
        serve(origin, cache=policy(gzip=True))
        for _ in range(2):
            zipped = ghost.get("/page", headers=[("Accept-Encoding", "gzip")])
            plain = ghost.get("/page")
            assert zipped.header("content-encoding") == ("gzip" if compressed else None)
            assert (gzip.decompress(zipped.body) if compressed else zipped.body) == plain.body == body
        assert len(origin.requests) == 1


def test_included_fragments_have_policies_of_their_own(ghost):
    page = answer(body=b'<esi:include src="/part"/>', headers=["Content-Type: text/html"])
    with ScriptedOrigin(page) as pages, ScriptedOrigin(answer(body=b"part")) as parts:
        routes = [
            route(
                "r",
                to(backend("parts"), matches=[prefix("/part")], cache=policy(ttl=600_000)),
                to(backend("pages"), cache=policy(esi=True)),
            )
        ]
        ghost.reload(Config(routes, {"pages": [pages.endpoint], "parts": [parts.endpoint]}))
        assert [ghost.get("/page").body for _ in range(2)] == [b"part"] * 2
        assert (len(pages.requests), len(parts.requests)) == (1, 1)
        assert outcome(ghost.get("/part")) == "hit"


def test_includes_are_left_alone_without_esi(ghost, serve):
    body = b'<esi:include src="/part"/>'
    with ScriptedOrigin(answer(body=body, headers=["Content-Type: text/html"])) as origin:
        serve(origin, cache=policy())
        assert ghost.get("/page").body == body


def test_tags_are_not_for_clients(ghost, serve):
    with ScriptedOrigin(answer(headers=["Surrogate-Key: a b", "Cache-Tag: c", "X-Other: 1"])) as origin:
        serve(origin, cache=policy(tag_headers=("Surrogate-Key",)))
        for _ in range(2):
            found = ghost.get("/page")
            names = ("surrogate-key", "cache-tag", "x-other")
            assert [found.header(name) for name in names] == [None, "c", "1"]


def test_truncated_response_is_not_stored(ghost, serve):
    cut = trickle([b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nConnection: close\r\n\r\n01234"], 0)
    with ScriptedOrigin(lambda *step: cut(*step) and False, answer()) as origin:
        serve(origin, cache=policy())
        ghost.raw(b"GET /page HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        found = ghost.get("/page")
        assert (found.body, len(origin.requests)) == (b"done", 2)
        assert "stored" in parameters(found)
