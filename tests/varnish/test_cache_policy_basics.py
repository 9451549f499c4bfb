"""Cache policies on a real varnishd: what is cached, for whom, and what the origin sees."""

import re

import pytest

from support.varnish.ghost import Config, backend, prefix, route, to
from varnish_gateway.ir import wire

POLICY = wire.CachePolicy(name="default/pages", default_ttl=60_000, cache_status="on")
OFF = wire.CachePolicy(name="default/broken", off=True)

pytestmark = pytest.mark.usefixtures("empty_cache", "unseen_origins")


def serve(ghost, tea, *rules: wire.Rule, listener: wire.CachePolicy | None = None) -> None:
    listeners = (wire.Listener(name="http", socket="http-80", port=80, cache=listener),)
    answer = ghost.reload(Config([route("r", *rules)], {"tea": [tea]}, listeners=listeners))
    assert answer.status == 200


def cached(policy: wire.CachePolicy | None = POLICY, *, path: str = "/") -> wire.Rule:
    return to(backend("tea"), matches=[prefix(path)], cache=policy)


def test_second_request_is_a_hit(ghost, tea):
    serve(ghost, tea, cached())
    first, second = ghost.get("/page"), ghost.get("/page")
    assert (first.status, second.status, first.body) == (200, 200, second.body)
    assert len(tea.seen) == 1
    pattern = (
        r"varnish-gateway; fwd=uri-miss; fwd-status=200; ttl=\d+; stored; "
        r'key="[^"]+"; detail="default/pages uri-miss default-ttl"'
    )
    assert re.fullmatch(pattern, first.header("cache-status"))
    assert second.header("cache-status").startswith("varnish-gateway; hit; ttl=")
    assert second.header("cache-status").endswith('detail="default/pages fresh"')


def test_rule_without_policy_is_passed(ghost, tea):
    serve(ghost, tea, cached(None))
    answers = [ghost.get("/page") for _ in range(2)]
    assert len(tea.seen) == 2
    assert [one.header("cache-status") for one in answers] == [None, None]


def test_rules_share_no_objects(ghost, tea):
    """The rules are of one host and differ by a header."""
    header = wire.Match(headers=(wire.ValueMatch(name="x-kind", value="green"),))
    serve(ghost, tea, to(backend("tea"), matches=[header], cache=POLICY), cached())
    for _ in range(2):
        ghost.get("/page")
        ghost.get("/page", headers=[("X-Kind", "green")])
    assert len(tea.seen) == 2


def test_policy_of_the_listener_applies_to_rules_without_one(ghost, tea):
    longer = wire.CachePolicy(name="default/own", default_ttl=600_000, cache_status="on")
    serve(ghost, tea, cached(longer, path="/own"), cached(OFF, path="/off"), cached(None), listener=POLICY)
    for path, fetches, name in [("/page", 1, "default/pages"), ("/own", 1, "default/own"), ("/off", 2, "")]:
        tea.seen.clear()
        answers = [ghost.get(path) for _ in range(2)]
        assert len(tea.seen) == fetches
        assert name in (answers[1].header("cache-status") or "")


def test_change_of_a_policy_takes_effect_without_vcl(ghost, tea):
    serve(ghost, tea, cached())
    ghost.get("/page")
    serve(ghost, tea, cached(None))
    ghost.get("/page")
    assert len(tea.seen) == 2
    serve(ghost, tea, cached())
    ghost.get("/page")
    assert len(tea.seen) == 2, "the object is still there"


def test_edit_of_timeouts_and_of_other_rules_keeps_the_cache(ghost, tea):
    serve(ghost, tea, cached())
    ghost.get("/page")
    timeouts = wire.Timeouts(request=9000)
    serve(ghost, tea, to(backend("tea"), cache=POLICY, timeouts=timeouts), cached(None, path="/other"))
    ghost.get("/page")
    assert len(tea.seen) == 1


def test_user_vcl_may_pass_and_may_cache(ghost, tea):
    serve(ghost, tea, cached())
    ghost.load_vcl('sub vcl_recv { if (req.url == "/never") { return (pass); } }')
    answers = [ghost.get("/never") for _ in range(2)]
    assert len(tea.seen) == 2
    assert "fwd=bypass" in answers[0].header("cache-status")
    tea.seen.clear()
    ghost.load_vcl("sub vcl_backend_response { set beresp.ttl = 0s; set beresp.grace = 0s; }")
    for _ in range(2):
        ghost.get("/short")
    assert len(tea.seen) == 2


def test_rollback_does_not_lose_the_policy(ghost, tea):
    serve(ghost, tea, cached())
    ghost.load_vcl("import std; sub vcl_recv { std.rollback(req); }")
    for _ in range(2):
        assert ghost.get("/page").status == 200
    assert len(tea.seen) == 1


def test_restart_does_not_lose_the_policy(ghost, tea):
    serve(ghost, tea, cached())
    ghost.load_vcl("sub vcl_deliver { if (req.restarts == 0) { return (restart); } }")
    for _ in range(2):
        assert ghost.get("/page").status == 200
    assert len(tea.seen) == 1


def test_head_is_answered_from_the_object_of_get(ghost, tea):
    serve(ghost, tea, cached())
    body = ghost.get("/page").body
    head = ghost.get("/page", method="HEAD")
    assert (head.status, head.body, head.header("content-length")) == (200, b"", str(len(body)))
    assert len(tea.seen) == 1


def test_no_internal_header_reaches_anyone(ghost, tea):
    serve(ghost, tea, cached())
    answers = [ghost.get("/page", headers=[("X-Ghost-Object", "1 1 - x")]) for _ in range(2)]
    assert not [name for one in answers for name, _ in one.headers if name.startswith("x-ghost")]
    assert not [name for name, _ in tea.seen[0].headers if name.lower().startswith("x-ghost")]
