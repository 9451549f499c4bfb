"""ghost and user VCL: the cache, restarts, pipes, a change of what was routed."""

from collections.abc import Iterator

import pytest

from support.varnish.ghost import (
    CACHE_EVERYTHING,
    Config,
    GhostHarness,
    VarnishError,
    backend,
    prefix,
    route,
    to,
)
from varnish_gateway.emit.vcl import main_vcl
from varnish_gateway.ir import wire

CANARY = wire.Match(headers=(wire.ValueMatch(name="x-canary", value="1"),))


@pytest.fixture(scope="module")
def shared() -> Iterator[GhostHarness]:
    with GhostHarness(Config()) as running:
        yield running


@pytest.fixture
def ghost(shared, tea, coffee) -> GhostHarness:
    """/tea and /coffee by path, and coffee for canaries."""
    routes = [
        route("tea", to(backend("tea"), matches=[prefix("/tea")])),
        route("coffee", to(backend("coffee"), matches=[prefix("/coffee"), CANARY])),
    ]
    assert shared.reload(Config(routes, {"tea": [tea], "coffee": [coffee]})).status == 200
    shared.admin("ban", "req.url ~ .")
    tea.seen.clear()
    coffee.seen.clear()
    return shared


def test_requests_pass_unless_user_vcl_returns(ghost, tea):
    ghost.load_vcl()
    ghost.get("/tea")
    ghost.get("/tea")
    assert len(tea.seen) == 2


def test_two_rules_never_share_an_object(ghost, tea, coffee):
    ghost.load_vcl(CACHE_EVERYTHING)
    same_url = [
        route("plain", to(backend("tea"))),
        route("canary", to(backend("coffee"), matches=[CANARY])),
    ]
    config = Config(same_url, {"tea": [tea], "coffee": [coffee]})
    ghost.reload(config)
    for _ in range(2):
        assert ghost.get("/same").origin == "tea"
        assert ghost.get("/same", headers=[("X-Canary", "1")]).origin == "coffee"
    assert (len(tea.seen), len(coffee.seen)) == (1, 1)
    swapped = wire.Match(path=wire.PathMatch(type="prefix", value="/same"))
    config.routes = [route("plain", to(backend("coffee"), matches=[swapped]))]
    ghost.reload(config)
    assert ghost.get("/same").origin == "coffee"  # rule 0 of the same route, yet another rule


def test_objects_survive_a_reload_that_leaves_their_rule_alone(ghost, tea, coffee):
    ghost.load_vcl(CACHE_EVERYTHING)
    ghost.get("/tea/kept")
    rule = to(backend("tea", weight=7), matches=[prefix("/tea")])
    ghost.reload(Config([route("tea", rule)], {"tea": [tea, coffee]}))
    ghost.get("/tea/kept")
    assert len(tea.seen) == 1


def test_answers_of_its_own_are_not_kept(ghost, tea):
    ghost.load_vcl(CACHE_EVERYTHING + "sub vcl_backend_response { set beresp.grace = 1h; return (deliver); }\n")
    assert ghost.get("/new").status == 404
    ghost.reload(Config([route("new", to(backend("tea")))], {"tea": [tea]}))
    assert ghost.get("/new").origin == "tea"


def test_the_client_url_stays_in_the_cache_key_and_in_bans(ghost, tea):
    rewrite = wire.Rewrite(path=wire.PathModifier(type="full", value="/one"))
    rule = to(backend("tea"), filters=wire.Filters(rewrite=rewrite))
    ghost.reload(Config([route("tea", rule)], {"tea": [tea]}))
    ghost.load_vcl(CACHE_EVERYTHING)
    for path in ("/x", "/y", "/x", "/y"):
        assert ghost.get(path).json["target"] == "/one"
    assert len(tea.seen) == 2
    ghost.admin("ban", "req.url == /x")
    ghost.get("/x")
    ghost.get("/y")
    assert len(tea.seen) == 3


@pytest.mark.parametrize(
    "change",
    ['set req.url = "/coffee";', 'set req.http.Host = "x"; set req.url = "/coffee";', 'set req.method = "GET";'],
)
def test_request_changed_by_user_vcl_is_routed_again(ghost, change):
    ghost.load_vcl(f"sub vcl_recv {{ if (req.http.X-Change) {{ {change} }} }}")
    expected = "coffee" if "coffee" in change else "tea"
    assert ghost.get("/tea", headers=[("X-Change", "1")]).origin == expected
    assert ghost.get("/tea").origin == "tea"


def test_a_backend_that_user_vcl_chose_is_kept(ghost, coffee):
    own = f'backend own {{ .host = "127.0.0.1"; .port = "{coffee.port}"; }}'
    ghost.load_vcl(own + 'sub vcl_recv { set req.backend_hint = own; set req.url = "/tea/other"; }')
    assert ghost.get("/tea").origin == "coffee"


def test_restarts_route_again(ghost):
    ghost.load_vcl("""
        sub vcl_recv { if (req.restarts == 1) { set req.url = "/coffee"; } }
        sub vcl_deliver { if (req.restarts == 0) { return (restart); } }
    """)
    assert ghost.get("/tea").origin == "coffee"


def test_a_rollback_brings_no_forged_header_back(ghost, tea):
    ghost.load_vcl("import std; sub vcl_recv { std.rollback(req); }")
    assert ghost.get("/tea", headers=[("X-Gateway-Route", "forged"), ("X-Ghost-A", "forged")]).origin == "tea"
    assert tea.seen[-1].values("x-gateway-route") == ["default/tea"]
    assert tea.seen[-1].values("x-ghost-a") == []


def test_retries_stay_with_the_backend(ghost, coffee):
    ghost.load_vcl("sub vcl_backend_response { if (bereq.retries < 2) { return (retry); } }")
    assert ghost.get("/coffee").origin == "coffee"
    assert [seen.target for seen in coffee.seen] == ["/coffee"] * 3


def test_pipe_that_is_no_websocket_has_an_answer_of_ghosts_own(ghost, tea):
    ghost.load_vcl("sub vcl_recv { if (req.http.Upgrade) { return (pipe); } }")
    request = b"GET /tea HTTP/1.1\r\nHost: a\r\nUpgrade: x\r\nConnection: close\r\n\r\n"
    assert ghost.raw(request).startswith(b"HTTP/1.1 501 ")
    assert ghost.raw(request.replace(b"/tea", b"/none")).startswith(b"HTTP/1.1 404 ")
    assert tea.seen == []
    assert ghost.counters()["routes"]["default/tea"]["status"]["5xx"] == 1


def test_user_vcl_may_repeat_the_version(ghost):
    ghost.load_vcl("vcl 4.1;\nsub vcl_deliver { set resp.http.X-User = ghost.rule(); }\n")
    assert len(ghost.get("/tea").header("x-user") or "") == 22  # its rule's part of cache keys


@pytest.mark.parametrize(
    ("subroutine", "call"),
    [
        ("vcl_backend_fetch", "set bereq.backend = ghost.recv();"),
        ("vcl_recv", "ghost.response();"),
        ("vcl_recv", "ghost.deliver();"),
    ],
)
def test_a_call_in_the_wrong_place_fails_the_request_alone(ghost, subroutine, call):
    ghost.load_vcl(f"sub {subroutine} {{ {call} }}")
    assert ghost.get("/tea").status == 503
    ghost.load_vcl()
    assert ghost.get("/tea").status == 200


def test_init_is_needed_once(ghost):
    without = main_vcl().replace("ghost.init();", "")
    with pytest.raises(VarnishError, match=r"vcl_init does not call ghost\.init"):
        ghost.load_vcl(whole=without)
    with pytest.raises(VarnishError, match="called twice"):
        ghost.load_vcl("sub vcl_init { ghost.init(); }")


def test_probe_named_default_is_rejected(ghost):
    ghost.load_vcl()
    child = ghost.child
    own = 'backend own { .host = "127.0.0.1"; }\nsub vcl_recv { if (req.http.own) { set req.backend_hint = own; } }\n'
    with pytest.raises(VarnishError, match="a probe named default would be that of the gateway's endpoints"):
        ghost.load_vcl('probe default { .url = "/"; }\n' + own)
    assert ghost.get("/tea").origin == "tea"
    ghost.load_vcl('probe mine { .url = "/"; }\n' + own.replace("; }", "; .probe = mine; }", 1))
    assert ghost.get("/tea").origin == "tea"
    assert ghost.child == child
