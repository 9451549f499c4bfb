"""Which requests the cache answers, which of them share a response, and what the origin gets."""

import json

import pytest

from support.varnish.caching import outcome, policy, reason
from support.varnish.ghost import Config, backend, route, to
from varnish_gateway.ir import wire

pytestmark = pytest.mark.usefixtures("empty_cache", "unseen_origins")


def serve(ghost, tea, cache, **rule) -> None:
    assert ghost.reload(Config([route("r", to(backend("tea"), cache=cache, **rule))], {"tea": [tea]})).status == 200


def ask(ghost, tea, *requests, host="www.example.com") -> list[int]:
    """Return for each request (path, headers) whether it reached the origin."""
    reached = []
    for path, *headers in requests:
        before = len(tea.seen)
        assert ghost.get(path, headers=headers, host=host).status == 200
        reached.append(len(tea.seen) - before)
    return reached


def key(**fields) -> wire.CachePolicy:
    return policy(cache_key=wire.CacheKey(**fields))


def excluding(*names: str) -> wire.CachePolicy:
    return key(query_parameters=wire.QueryParameters(exclude=names))


def answering(*lines: str) -> tuple[str, str]:
    return ("Echo-Answer", json.dumps(lines))


# -- who passes ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bypass", "header", "word"),
    [
        (wire.Bypass(headers=(wire.BypassHeader(name="X-Debug"),)), ("x-debug", "1"), "bypass-header"),
        (wire.Bypass(headers=(wire.BypassHeader(name="X-Mode", value_regex="a|b"),)), ("X-Mode", "b"), "bypass-header"),
        (wire.Bypass(cookies=("session*",)), ("Cookie", "a=1; session_id=2"), "bypass-cookie"),
    ],
)
def test_request_that_meets_a_condition_passes(ghost, tea, bypass, header, word):
    serve(ghost, tea, policy(bypass=bypass))
    assert ask(ghost, tea, ("/page",), ("/page",), ("/page", header), ("/page", header)) == [1, 0, 1, 1]
    passed = ghost.get("/page", headers=[header])
    assert (outcome(passed), reason(passed)) == ("bypass", word)
    assert ask(ghost, tea, ("/page", ("X-Mode", "c"), ("Cookie", "a=1"))) == [0]


def test_method_in_bypass_passes(ghost, tea):
    serve(ghost, tea, policy(bypass=wire.Bypass(methods=("HEAD",))))
    ghost.get("/page")
    assert outcome(ghost.get("/page", method="HEAD")) == "bypass"
    assert len(tea.seen) == 2


def test_post_passes(ghost, tea):
    serve(ghost, tea, policy())
    ghost.get("/page")
    answer = ghost.get("/page", method="POST", body=b"x")
    assert (outcome(answer), answer.json["body"]) == ("method", "x")


def test_get_with_a_body_passes_whole(ghost, tea):
    serve(ghost, tea, policy())
    ghost.get("/page")
    answer = ghost.get("/page", body=b"query")
    assert (outcome(answer), answer.json["body"], len(tea.seen)) == ("request", "query", 2)


def test_cookie_and_authorization_may_be_answered_from_the_cache(ghost, tea):
    """The built-in VCL would pass both."""
    serve(ghost, tea, policy())
    requests = [("/page",), ("/page", ("Cookie", "a=1")), ("/page", ("Authorization", "Basic eA=="))]
    assert ask(ghost, tea, *requests) == [1, 0, 0]


def test_response_to_authorization_is_shared_only_if_the_origin_says_so(ghost, tea):
    serve(ghost, tea, policy())
    secret = ("Authorization", "Basic eA==")
    assert ask(ghost, tea, ("/secret", secret), ("/secret",)) == [1, 1]
    public = answering("Cache-Control: public, max-age=60")
    assert ask(ghost, tea, ("/public", secret, public), ("/public",)) == [1, 0]


@pytest.mark.parametrize(
    ("mode", "stated", "reached"),
    [("explicit", False, [1, 1]), ("explicit", True, [1, 0]), ("ignore", False, [1, 0]), ("remove", False, [1, 0])],
)
def test_response_to_cookies_is_stored_as_the_policy_says(ghost, tea, mode, stated, reached):
    serve(ghost, tea, policy(request_cookies=mode))
    lines = [answering("Cache-Control: max-age=60")] if stated else []
    assert ask(ghost, tea, ("/page", ("Cookie", "user=1"), *lines), ("/page",)) == reached
    assert tea.seen[0].values("cookie") == ([] if mode == "remove" else ["user=1"])


def test_remove_keeps_cookies_of_the_key(ghost, tea):
    serve(ghost, tea, policy(request_cookies="remove", cache_key=wire.CacheKey(cookies=("theme",))))
    assert ask(ghost, tea, ("/page", ("Cookie", "user=1; theme=dark; x=y"))) == [1]
    assert tea.seen[0].values("cookie") == ["theme=dark"]


def test_private_page_with_the_suffix_of_a_file_stays_private(ghost, tea):
    """Cache deception: the origin's directives decide, not the URL."""
    serve(ghost, tea, policy(forced=True))
    private = answering("Cache-Control: private")
    assert ask(ghost, tea, ("/account/x.css", private, ("Cookie", "user=1")), ("/account/x.css",)) == [1, 1]


# -- keys ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cache", "one", "other", "shared"),
    [
        (excluding("utm_*"), "/p?a=1&utm_source=x", "/p?a=1", True),
        (excluding("utm_*"), "/p?utm_source=x", "/p", True),
        (excluding("utm_*"), "/p?a=1", "/p?a=2", False),
        (key(query_parameters=wire.QueryParameters(include=("id",))), "/p?id=1&x=2", "/p?x=3&id=1", True),
        (policy(), "/p?a=1&b=2", "/p?b=2&a=1", True),
        (policy(), "/p?a=1&a=2", "/p?a=2&a=1", False),
        (policy(), "/p?a", "/p?a=", False),
        (policy(), "/p", "/P", False),
    ],
)
def test_query_parameters_in_the_key(ghost, tea, *, cache, one, other, shared):
    """An excluded parameter is in no part of the key."""
    serve(ghost, tea, cache)
    assert ask(ghost, tea, (one,), (other,)) == [1, 0 if shared else 1]


def test_origin_gets_no_excluded_parameter(ghost, tea):
    serve(ghost, tea, excluding("utm_*"))
    ask(ghost, tea, ("/p?b=1&utm_source=x&a=2",), ("/q?utm_source=x",), ("/r?b&a",))
    assert [one.target for one in tea.seen] == ["/p?b=1&a=2", "/q", "/r?b&a"]


def test_headers_and_cookies_in_the_key(ghost, tea):
    serve(ghost, tea, key(headers=("X-Country",), cookies=("theme",)))
    dark, light = ("Cookie", "id=1; theme=dark"), ("Cookie", "theme=light; id=2")
    requests = [("/p", dark), ("/p", light), ("/p", ("Cookie", "theme=dark; other=3"))]
    stated = answering("Cache-Control: max-age=60")
    assert ask(ghost, tea, *((path, header, stated) for path, header in requests)) == [1, 1, 0]
    assert ask(ghost, tea, ("/q", ("X-Country", "de")), ("/q", ("X-Country", "fr")), ("/q",)) == [1, 1, 1]


def test_case_final_dot_and_usual_port_of_the_host_are_irrelevant(ghost, tea):
    serve(ghost, tea, policy())
    assert ask(ghost, tea, ("/p",), host="WWW.example.com.:80") == [1]
    assert ask(ghost, tea, ("/p",), host="www.example.com") == [0]
    assert ask(ghost, tea, ("/p",), host="api.example.com") == [1]
    assert [one.values("host") for one in tea.seen] == [["www.example.com"], ["api.example.com"]]


def test_another_port_in_the_host_is_another_object(ghost, tea):
    """The origin may redirect to the port: one client must not send all others there."""
    serve(ghost, tea, policy())
    assert ask(ghost, tea, ("/p",), host="www.example.com:1337") == [1]
    assert ask(ghost, tea, ("/p",), host="www.example.com") == [1]
    assert [one.values("host") for one in tea.seen] == [["www.example.com:1337"], ["www.example.com"]]


def test_listeners_share_objects_only_if_the_key_says_so(ghost, tea):
    listeners = tuple(wire.Listener(name=name, socket="http-80", hostname=name) for name in ("a.example", "*"))
    for shared, reached in ((False, [1, 1]), (True, [1, 0])):
        cache = key(listener=not shared)
        routes = [route("r", to(backend("tea"), cache=cache), listeners=["a.example"], hosts=["a.example"])]
        ghost.reload(Config(routes, {"tea": [tea]}, listeners=listeners))
        found = ask(ghost, tea, (f"/{shared}",), host="a.example")
        renamed = tuple(wire.Listener(name=name, socket="http-80", hostname="*") for name in ("other",))
        routes = [route("r", to(backend("tea"), cache=cache), listeners=["other"], hosts=["a.example"])]
        ghost.reload(Config(routes, {"tea": [tea]}, listeners=renamed))
        assert found + ask(ghost, tea, (f"/{shared}",), host="a.example") == reached


# -- poisoning -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["X-Forwarded-Host", "X-Original-URL", "X-HTTP-Method-Override", "Forwarded"])
def test_header_that_could_poison_the_cache_does_not_reach_the_origin(ghost, tea, name):
    serve(ghost, tea, policy())
    ask(ghost, tea, ("/p", (name, "evil.example")))
    assert tea.seen[0].values(name) == []
    serve(ghost, tea, None)
    ask(ghost, tea, ("/passed", ("X-Forwarded-Host", "other.example")))
    assert tea.seen[1].values("x-forwarded-host") == ["other.example"]


def test_suspicious_header_in_the_key_reaches_the_origin(ghost, tea):
    serve(ghost, tea, key(headers=("X-Forwarded-Host",)))
    hosts = [("X-Forwarded-Host", "a.example"), ("X-Forwarded-Host", "b.example")]
    assert ask(ghost, tea, ("/p", hosts[0]), ("/p", hosts[1]), ("/p", hosts[0])) == [1, 1, 0]
    assert tea.seen[0].values("x-forwarded-host") == ["a.example"]


def test_filters_of_the_rule_apply_to_what_is_cached(ghost, tea):
    header = wire.HeaderModifier(set=(wire.Header(name="x-forwarded-host", value="set.example"),))
    added = wire.HeaderModifier(add=(wire.Header(name="x-added", value="1"),))
    serve(ghost, tea, policy(), filters=wire.Filters(request=header, response=added))
    answers = [ghost.get("/p") for _ in range(2)]
    assert len(tea.seen) == 1
    assert tea.seen[0].values("x-forwarded-host") == ["set.example"]
    assert [one.values("x-added") for one in answers] == [["1"], ["1"]]


def test_keyed_header_that_the_origin_does_not_get_passes(ghost, tea):
    serve(ghost, tea, key(headers=("X-Tenant",)))
    hidden = [("X-Tenant", "b"), ("Connection", "X-Tenant")]
    passed = ghost.get("/p", headers=hidden)
    assert (outcome(passed), reason(passed)) == ("request", "hidden-key")
    assert tea.seen[0].values("x-tenant") == []
    assert ask(ghost, tea, ("/p", ("X-Tenant", "b")), ("/p", ("X-Tenant", "b"))) == [1, 0]
