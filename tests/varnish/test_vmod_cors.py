"""CORS: preflights that ghost answers, headers on answers, and the cache between them."""

import asyncio
from collections.abc import Iterator

import pytest

from support.http.client import Answer, Request, over_http2
from support.http.origins import Origin
from support.varnish.ghost import CACHE_EVERYTHING, Config, GhostHarness, backend, prefix, route, to
from varnish_gateway.ir import wire

SOME = wire.Cors(
    origins=("https://www.foo.com", "https://*.bar.com"),
    methods=("GET", "OPTIONS"),
    headers=("x-header-1", "x-header-2"),
    expose=("x-header-3",),
    credentials=True,
    max_age=3600,
)
OPEN = wire.Cors(origins=("*",), methods=("*",), headers=("*",))
ALLOWED = "access-control-allow-origin"
LAST_WORD = wire.Filters(
    response=wire.HeaderModifier(
        set=(wire.Header(name="Access-Control-Allow-Private-Network", value="true"),),
        remove=("access-control-expose-headers",),
    )
)


@pytest.fixture(scope="module")
def ghost(tea) -> Iterator[GhostHarness]:
    rules = [
        to(backend("tea"), matches=[prefix("/some")], cors=SOME),
        to(backend("tea"), matches=[prefix("/open")], cors=OPEN),
        to(backend("tea"), matches=[wire.Match(path=prefix("/get").path, method="GET")], cors=SOME),
        to(backend("tea"), matches=[prefix("/modified")], cors=SOME, filters=LAST_WORD),
        wire.Rule(matches=(prefix("/moved"),), redirect=wire.Redirect(hostname="a.org"), cors=OPEN),
        to(backend("tea")),
    ]
    with GhostHarness(Config([route("r", *rules)], {"tea": [tea]})) as running:
        yield running


def preflight(ghost: GhostHarness, path: str, origin: str, method: str = "GET", headers: str | None = None) -> Answer:
    asked = [("Origin", origin), ("Access-Control-Request-Method", method)]
    asked += [("Access-Control-Request-Headers", headers)] if headers else []
    return ghost.get(path, method="OPTIONS", headers=asked)


def cors_headers(answer: Answer) -> dict[str, str]:
    return {name: value for name, value in answer.headers if name.startswith("access-control-")}


def test_a_preflight_never_reaches_the_backend(ghost, tea):
    tea.seen.clear()
    for path, origin in (
        ("/some", "https://www.foo.com"),
        ("/some", "https://foobar.com"),
        ("/get", "https://a.bar.com"),
    ):
        answer = preflight(ghost, path, origin)
        assert (answer.status, answer.body, answer.header("vary")) == (204, b"", "Origin")
        assert answer.header("content-length") is None
        assert answer.header(ALLOWED) == (None if "foobar" in origin else origin)
    assert not tea.seen


def test_preflight_response_lists_what_is_allowed(ghost):
    assert cors_headers(preflight(ghost, "/some", "https://x.www.bar.com", "GET", "x-header-1")) == {
        "access-control-allow-origin": "https://x.www.bar.com",
        "access-control-allow-credentials": "true",
        "access-control-allow-methods": "GET, OPTIONS",
        "access-control-allow-headers": "x-header-1, x-header-2",
        "access-control-expose-headers": "x-header-3",
        "access-control-max-age": "3600",
    }
    answer = preflight(ghost, "/open", "https://foobar.com:12345", "PUT", "x-a, authorization")
    assert answer.header("vary") is None
    assert cors_headers(answer) == {
        "access-control-allow-origin": "*",
        "access-control-allow-methods": "PUT",
        "access-control-allow-headers": "x-a, authorization",
        "access-control-max-age": "5",
    }


def test_over_http2_too(ghost):
    asked = (("origin", "https://www.foo.com"), ("access-control-request-method", "GET"))
    requests = [
        Request(method="OPTIONS", target="/some", host="a", headers=asked),
        Request(method="GET", target="/some", host="a", headers=asked),
    ]
    answers = asyncio.run(over_http2(ghost.ports["http-80"], requests))
    assert [answer.status for answer in answers] == [204, 200]
    assert [answer.header(ALLOWED) for answer in answers] == ["https://www.foo.com"] * 2


def test_an_options_request_without_an_announcement_is_the_backends(ghost, tea):
    tea.seen.clear()
    assert ghost.get("/some", method="OPTIONS", headers=[("Origin", "https://www.foo.com")]).origin == "tea"
    assert preflight(ghost, "/plain", "https://www.foo.com").origin == "tea"
    assert preflight(ghost, "/get", "https://www.foo.com", "PUT").origin == "tea"
    assert len(tea.seen) == 3


def test_responses_name_the_allowed_origin(ghost):
    answer = ghost.get("/some", headers=[("Origin", "https://www.bar.com")])
    assert cors_headers(answer) == {
        "access-control-allow-origin": "https://www.bar.com",
        "access-control-allow-credentials": "true",
        "access-control-expose-headers": "x-header-3",
    }
    assert cors_headers(ghost.get("/some", headers=[("Origin", "https://foobar.com")])) == {}
    assert cors_headers(ghost.get("/some")) == {}
    assert {ghost.get("/some", headers=headers).header("vary") for headers in ([], [("Origin", "x")])} == {"Origin"}
    assert cors_headers(ghost.get("/open", method="PUT", headers=[("Origin", "https://x")])) == {ALLOWED: "*"}
    assert cors_headers(ghost.get("/plain", headers=[("Origin", "https://www.foo.com")])) == {}


def test_so_do_redirects_and_errors_of_the_gateway(ghost):
    moved = ghost.get("/moved", headers=[("Origin", "https://x.org")])
    assert (moved.status, moved.header(ALLOWED)) == (302, "*")
    assert preflight(ghost, "/moved", "https://x.org").status == 204


def test_cors_headers_of_the_backend_are_removed(ghost):
    own = '["Access-Control-Allow-Origin: *", "access-control-max-age: 9", "Vary: accept, origin"]'
    answer = ghost.get("/some", headers=[("Origin", "https://foobar.com"), ("Echo-Answer", own)])
    assert cors_headers(answer) == {}
    assert answer.values("vary") == ["accept, origin"]
    answer = ghost.get("/plain", headers=[("Origin", "https://foobar.com"), ("Echo-Answer", own)])
    assert len(cors_headers(answer)) == 2


def test_a_response_header_modifier_of_the_rule_has_the_last_word(ghost):
    origin = "https://www.foo.com"
    own = ("Echo-Answer", '["Access-Control-Allow-Private-Network: backend"]')
    for answer in (preflight(ghost, "/modified", origin), ghost.get("/modified", headers=[("Origin", origin), own])):
        found = cors_headers(answer)
        assert (found[ALLOWED], found["access-control-allow-private-network"]) == (origin, "true")
        assert "access-control-expose-headers" not in found


@pytest.fixture
def cached(ghost) -> Iterator[GhostHarness]:
    ghost.load_vcl(CACHE_EVERYTHING + "sub vcl_backend_response { set beresp.ttl = 1m; return (deliver); }")
    ghost.admin("ban", "req.url ~ .")
    yield ghost
    ghost.load_vcl()


def test_the_cache_never_mixes_origins(cached, tea):
    tea.seen.clear()
    origins = ["https://www.foo.com", "https://a.bar.com", "https://foobar.com", None] * 2
    for origin in origins:
        answer = cached.get("/some/cached", headers=[("Origin", origin)] if origin else [])
        allowed = origin if origin and "foobar" not in origin else None
        assert (answer.status, answer.header(ALLOWED)) == (200, allowed)
    assert len(tea.seen) == 1


def test_a_preflight_and_an_object_of_one_url_stay_apart(cached):
    for origin in ("https://www.foo.com", "https://foobar.com", "https://b.bar.com"):
        answer = preflight(cached, "/some/both", origin)
        assert (answer.status, answer.header(ALLOWED)) == (204, None if "foobar" in origin else origin)
        assert cached.get("/some/both").origin == "tea"


def test_a_forged_origin_breaks_nothing(ghost):
    for origin in ("null", "https://www.foo.com, https://evil.org", "x" * 3000, "https://\xff"):
        assert cors_headers(ghost.get("/some", headers=[("Origin", origin.encode("latin-1"))])) == {}
        assert ghost.get("/open", headers=[("Origin", origin.encode("latin-1"))]).header(ALLOWED) == "*"


def test_rules_of_one_route_keep_their_own(ghost):
    with Origin("x"):
        assert preflight(ghost, "/open", "https://foobar.com").header(ALLOWED) == "*"
        assert preflight(ghost, "/some", "https://foobar.com").header(ALLOWED) is None
