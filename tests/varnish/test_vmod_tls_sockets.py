"""Sockets behind a TLS terminator: who the client is, what it asked for by name, and in which scheme."""

import asyncio
from collections.abc import Iterator

import pytest

from support.http.client import Answer, Request, over_http1, over_http2, proxied
from support.varnish.ghost import CACHE_EVERYTHING, HTTP_80, Config, GhostHarness, backend, prefix, route, to
from varnish_gateway.ir import wire

SOCKET = "https-443"


def listener(name: str, hostname: str = "*") -> wire.Listener:
    return wire.Listener(name=name, socket=SOCKET, port=443, scheme="https", hostname=hostname)


LISTENERS = (
    HTTP_80,
    listener("any"),
    listener("second", "second-example.org"),
    listener("wildcard", "*.wildcard.org"),
    listener("fourth", "fourth-example.wildcard.org"),
)


@pytest.fixture(scope="module")
def ghost(tea, coffee) -> Iterator[GhostHarness]:
    moved = wire.Rule(matches=(prefix("/moved"),), redirect=wire.Redirect(hostname="a.org"))
    routes = [
        route("any", to(backend("tea")), moved, hosts=["example.org"], listeners=["any", "http"]),
        route("other", to(backend("coffee")), listeners=["second", "wildcard", "fourth"]),
    ]
    config = Config(routes, {"tea": [tea], "coffee": [coffee]}, LISTENERS)
    with GhostHarness(config, sockets=("http-80", f"{SOCKET},PROXY")) as running:
        yield running


def ask(
    ghost: GhostHarness, server_name: str | None, host: str, target: str = "/", *, http2: bool = False, **parts
) -> Answer:
    request = Request(method="GET", target=target, host=host, **parts)
    preface, port = proxied(server_name), ghost.ports[SOCKET]
    if http2:
        return asyncio.run(over_http2(port, [request], preface=preface))[0]
    return asyncio.run(over_http1(port, preface + request.as_http1()))


@pytest.mark.parametrize("http2", [False, True])
@pytest.mark.parametrize(
    ("server_name", "host", "answered_by"),
    [
        ("example.org", "example.org", "tea"),
        ("example.org", "second-example.org", 421),
        ("example.org", "unknown-example.org", 404),
        ("second-example.org", "second-example.org", "coffee"),
        ("second-example.org", "example.org", 421),
        ("second-example.org", "unknown-example.org", 421),
        ("third-example.wildcard.org", "third-example.wildcard.org", "coffee"),
        ("third-example.wildcard.org", "fifth-example.wildcard.org", "coffee"),
        ("third-example.wildcard.org", "fourth-example.wildcard.org", 421),
        ("third-example.wildcard.org", "second-example.org", 421),
        ("fourth-example.wildcard.org", "fourth-example.wildcard.org", "coffee"),
        ("fourth-example.wildcard.org", "fifth-example.wildcard.org", 421),
        ("unknown-example.org", "example.org", "tea"),
        ("unknown-example.org", "unknown-example.org", 404),
        ("Example.ORG", "example.org:443", "tea"),
        (None, "second-example.org", "coffee"),
        (None, "unknown-example.org", 404),
    ],
)
def test_a_request_on_a_connection_of_another_listener_is_a_421(ghost, server_name, host, answered_by, http2):
    assert ask(ghost, server_name, host, http2=http2).answered_by == answered_by


def test_it_is_an_answer_like_others_for_user_vcl(ghost):
    ghost.load_vcl("sub vcl_deliver { set resp.http.X-User = resp.status; }")
    answer = ask(ghost, "example.org", "second-example.org")
    ghost.load_vcl()
    assert (answer.header("x-user"), answer.header("cache-control")) == ("421", "no-store")
    assert "other hosts" in answer.json["reason"]


def test_plain_sockets_know_no_server_names(ghost):
    assert ghost.get(host="example.org").origin == "tea"


def test_the_client_is_the_one_that_the_terminator_names(ghost, tea):
    ghost.load_vcl("""
        import std;
        sub vcl_deliver { set resp.http.X-User = client.ip + " " + std.port(server.ip) + " " + local.socket; }
    """)
    answer = ask(ghost, "example.org", "example.org")
    ghost.load_vcl()
    assert answer.header("x-user") == "192.0.2.7 443 https-443"
    assert tea.seen[-1].values("x-forwarded-for") == ["192.0.2.7"]
    assert tea.seen[-1].values("x-gateway-listener") == [SOCKET]


def test_backends_receive_the_scheme_of_the_connection(ghost, tea):
    forged = (("X-Forwarded-Proto", "gopher"), ("x-forwarded-proto", "https"))
    for http2 in (False, True):
        ask(ghost, "example.org", "example.org", http2=http2, headers=forged)
        assert tea.seen[-1].values("x-forwarded-proto") == ["https"]
    ghost.get(host="example.org", headers=forged)
    assert tea.seen[-1].values("x-forwarded-proto") == ["http"]
    ghost.load_vcl("import std; sub vcl_recv { std.rollback(req); }")
    ghost.get(host="example.org", headers=forged)
    ghost.load_vcl()
    assert tea.seen[-1].values("x-forwarded-proto") == ["http"]


def test_the_cache_keeps_both_schemes_apart(ghost, tea):
    """Or an origin's redirect to https would be served to those who are there."""
    ghost.load_vcl(CACHE_EVERYTHING)
    tea.seen.clear()
    for _ in range(2):
        assert ask(ghost, "example.org", "example.org", "/kept").json["headers"]
        assert ghost.get("/kept", host="example.org").status == 200
    ghost.load_vcl()
    assert [seen.values("x-forwarded-proto") for seen in tea.seen] == [["https"], ["http"]]


def test_redirects_keep_the_scheme(ghost):
    assert ask(ghost, "example.org", "example.org", "/moved/x").header("location") == "https://a.org/moved/x"
    assert ghost.get("/moved/x", host="example.org").header("location") == "http://a.org/moved/x"


def test_rules_may_ask_for_the_scheme(ghost, tea, coffee):
    secure = wire.Match(headers=(wire.ValueMatch(name="x-forwarded-proto", value="https"),))
    routes = [
        route("all", to(backend("tea")), listeners=["any", "http"]),
        route("secure", to(backend("coffee"), matches=[secure]), listeners=["any", "http"]),
    ]
    ghost.reload(Config(routes, {"tea": [tea], "coffee": [coffee]}, LISTENERS))
    assert ask(ghost, None, "a").origin == "coffee"
    assert ghost.get(host="a", headers=[("X-Forwarded-Proto", "https")]).origin == "tea"
