"""Invalidations on the reload socket: what they hit, and what clients get afterwards."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec import structs

from support.http.scripted_origin import ScriptedOrigin, answer, once
from support.varnish.caching import outcome, policy
from support.varnish.ghost import Config, backend, route, to
from support.varnish.ghost import prefix as under
from support.varnish.invalidation import HOST, ask, index, invalidate, matching, prefix, uri
from support.waiting import until
from varnish_gateway.ir import wire

EVERYTHING = {"everything": True}
TAGGED = {"cache": policy(grace=60_000, tag_headers=("Surrogate-Key",))}

pytestmark = pytest.mark.usefixtures("empty_cache", "empty_index")


def get(ghost, path: str, *, host: str = HOST, **request):
    return outcome(ghost.get(path, host=host, **request))


def tagged(ghost, path: str, tags: str, *, host: str = HOST):
    """Store a response of an origin that answers what it is asked for."""
    lines = [("Echo-Answer", json.dumps([f"Surrogate-Key: {tags}"]))]
    assert get(ghost, path, host=host, headers=lines) == "uri-miss"


# -- what they hit ---------------------------------------------------------------------


def test_uri_names_all_variants_and_keys(ghost, serve):
    key = wire.CacheKey(headers=("x-kind",), cookies=("theme",))
    with ScriptedOrigin(answer(headers=["Vary: X-A"])) as origin:
        serve(origin, cache=policy(cache_key=key))
        requests = [
            {"headers": [("X-Kind", kind), ("Cookie", f"theme={theme}"), ("X-A", variant)]}
            for kind in "ab"
            for theme in "cd"
            for variant in "ef"
        ]
        for request in requests:
            get(ghost, "/page?a=1", **request)
        get(ghost, "/page")
        assert invalidate(ghost, uri("/page?a=1")) == [8]
        assert "hit" not in {get(ghost, "/page?a=1", **request) for request in requests}
        assert get(ghost, "/page") == "hit"


def test_uri_names_what_a_policy_takes_for_the_same(ghost, serve):
    excluding = wire.CacheKey(query_parameters=wire.QueryParameters(exclude=("utm_*",)))
    including = wire.CacheKey(query_parameters=wire.QueryParameters(include=("id",)))
    with ScriptedOrigin(answer()) as origin:
        for key, requested, named in [
            (wire.CacheKey(), "/page?b=2&a=1", "/page?a=1&b=2"),
            (excluding, "/page?b=2&a=1&utm_x=1", "/page?utm_y=2&a=1&b=2"),
            (excluding, "/page?utm_x=1", "/page"),
            (including, "/page?id=1&other=2", "/page?id=1"),
        ]:
            serve(origin, cache=policy(cache_key=key))
            get(ghost, requested)
            assert invalidate(ghost, uri("/page?a=1"), uri("/other"), uri(named, "b.example")) == [0, 0, 0]
            assert invalidate(ghost, uri(named)) == [1], named
            assert get(ghost, requested) != "hit"
            invalidate(ghost, EVERYTHING)


def test_uri_names_what_a_policy_of_the_past_has_stored(ghost, serve):
    """The policy may come back, and its objects with it."""
    key = wire.CacheKey(query_parameters=wire.QueryParameters(exclude=("utm_*",)))
    with ScriptedOrigin(answer()) as origin:
        serve(origin, cache=policy(cache_key=key))
        get(ghost, "/page?utm_a=1")
        serve(origin, cache=policy())
        assert invalidate(ghost, uri("/page?utm_b=1")) == [1]
        serve(origin, cache=policy(cache_key=key))
        assert get(ghost, "/page?utm_a=1") == "uri-miss"


def test_what_policies_of_the_past_ignored_is_forgotten_with_their_objects(ghost, serve):
    """Every purge of a URI looks for its objects in each of these forms."""
    with ScriptedOrigin(answer()) as origin:
        for name in ("a", "b", "c"):
            key = wire.CacheKey(query_parameters=wire.QueryParameters(exclude=(name,)))
            serve(origin, cache=policy(cache_key=key))
            get(ghost, f"/{name}?a=1&b=1&c=1")
        until(lambda: index(ghost)["shapes"] == 3, "each policy has an object")
        assert invalidate(ghost, uri("/a?b=1&c=1&a=2"), uri("/b?c=1&a=1")) == [1, 1]
        until(lambda: index(ghost)["shapes"] == 1, "what has no object is gone")
        invalidate(ghost, EVERYTHING)
        until(lambda: index(ghost)["shapes"] == 0, "nothing is left")


def test_uri_is_that_of_the_client_where_the_rule_rewrites_it(ghost, serve):
    path = wire.PathModifier(type="full", value="/inner")
    rewrite = wire.Filters(rewrite=wire.Rewrite(hostname="inner.example", path=path))
    with ScriptedOrigin(answer()) as origin:
        serve(origin, cache=policy(), filters=rewrite)
        get(ghost, "/outer?a=1")
        assert b"GET /inner?a=1 " in origin.requests[0]
        assert invalidate(ghost, uri("/inner?a=1"), uri("/inner?a=1", "inner.example"), uri("/outer?a=1")) == [0, 0, 1]
        assert get(ghost, "/outer?a=1") == "uri-miss"


def test_hosts_and_targets_are_read_as_those_of_requests(ghost, tea):
    rules = wire.RequestRules(merge_slashes=True)
    config = Config([route("r", to(backend("tea"), cache=policy()))], {"tea": [tea]}, requests=rules)
    assert ghost.reload(config).status == 200
    for named in [uri("/a//b/../page", "TEA.Example.:8080"), prefix("/a//pa"), {"host": "TEA.example."}]:
        get(ghost, "/a/page")
        assert invalidate(ghost, named) == [1]


def test_each_target_has_its_count(ghost, serve, tea):
    serve(tea, **TAGGED)
    for path, tags in [("/v1/a", "x y"), ("/v1/b?q=1", "y"), ("/v2/a", "z"), ("/", "-")]:
        tagged(ghost, path, tags)
    tagged(ghost, "/v1/a", "x", host="b.example")
    targets = [
        uri("/v1/a"),
        prefix("/v1/"),
        matching("^/v[0-9]/b"),
        matching("a$"),
        {"host": "b.example"},
        {"tags": ["x", "y", "missing"]},
        {"route": "default/r"},
        {"route": "default/other"},
        EVERYTHING,
    ]
    assert invalidate(ghost, *targets, mode="soft") == [1, 2, 1, 2, 1, 3, 5, 0, 5]
    assert index(ghost)["objects"] == 5


def test_removed_object_is_not_counted_again(ghost, serve, tea):
    serve(tea, **TAGGED)
    tagged(ghost, "/v1/a", "x")
    assert invalidate(ghost, {"tags": ["x"]}, uri("/v1/a"), EVERYTHING) == [1, 0, 0]


def test_routes_restrict_every_target(ghost, tea):
    rules = [(name, to(backend("tea"), matches=[under(f"/{name}")], **TAGGED)) for name in ("one", "two")]
    assert ghost.reload(Config([route(name, rule) for name, rule in rules], {"tea": [tea]})).status == 200
    tagged(ghost, "/one/a", "x")
    tagged(ghost, "/two/a", "x")
    targets = [uri("/one/a"), prefix("/"), matching("a"), {"host": HOST}, {"tags": ["x"]}, {"route": "default/one"}]
    targets.append(EVERYTHING)
    for routes, expected in [([], 0), (["default/other"], 0), (["default/one", "default/other"], 1)]:
        assert invalidate(ghost, *targets, mode="soft", routes=routes) == [expected] * len(targets)
    assert invalidate(ghost, EVERYTHING, routes=["default/two"]) == [1]
    assert (get(ghost, "/two/a"), index(ghost)["objects"]) == ("uri-miss", 2)


def test_namespaces_restrict_to_what_their_routes_have_stored_also_those_that_are_gone(ghost, tea):
    one, two = (
        structs.replace(route(name, to(backend("tea"), matches=[under(f"/{name}")], **TAGGED)), namespace=f"of-{name}")
        for name in ("one", "two")
    )
    assert ghost.reload(Config([one, two], {"tea": [tea]})).status == 200
    tagged(ghost, "/one/a", "x")
    tagged(ghost, "/two/a", "x")
    assert ghost.reload(Config([two], {"tea": [tea]})).status == 200
    targets = [uri("/one/a"), prefix("/"), matching("a"), {"host": HOST}, {"tags": ["x"]}, {"route": "of-one/one"}]
    targets.append(EVERYTHING)
    for namespaces, expected in [([], 0), (["other"], 0), (["of-one", "other"], 1)]:
        assert invalidate(ghost, *targets, mode="soft", namespaces=namespaces) == [expected] * len(targets)
    assert invalidate(ghost, {"tags": ["x"]}, mode="soft", namespaces=["other"], routes=["of-two/two"]) == [1]
    assert invalidate(ghost, EVERYTHING, namespaces=["of-one"]) == [1]
    assert (get(ghost, "/two/a"), index(ghost)["objects"]) == ("hit", 1)


def test_ten_thousand_tags_are_one_invalidation(ghost, serve, tea):
    serve(tea, **TAGGED)
    for number in range(20):
        tagged(ghost, f"/{number}", f"tag-{number * 500}")
    tags = [f"tag-{number}" for number in range(10_000)]
    assert invalidate(ghost, {"tags": tags}) == [20]


def test_included_fragment_is_an_object_of_its_own(ghost, serve):
    page = answer(body=b'<esi:include src="/part"/>', headers=["Content-Type: text/html"])
    with ScriptedOrigin(page, answer(body=b"one"), answer(body=b"two")) as origin:
        serve(origin, cache=policy(esi=True))
        assert ghost.get("/page", host=HOST).body == b"one"
        assert invalidate(ghost, uri("/part")) == [1]
        assert ghost.get("/page", host=HOST).body == b"two"
        assert len(origin.requests) == 3


# -- what clients get afterwards -------------------------------------------------------


def test_soft_one_leaves_what_may_be_used_stale(ghost, serve):
    with ScriptedOrigin(answer(body=b"one", headers=['ETag: "1"']), answer(body=b"two")) as origin:
        serve(origin, cache=policy(grace=60_000))
        get(ghost, "/page")
        assert invalidate(ghost, uri("/page"), mode="soft") == [1]
        stale = ghost.get("/page", host=HOST)
        assert (outcome(stale), stale.body) == ("hit", b"one")
        until(lambda: ghost.get("/page", host=HOST).body == b"two", "the response is refreshed")
        assert b'If-None-Match: "1"' in origin.requests[1]


def test_soft_one_without_a_window_has_the_response_validated(ghost, serve):
    steps = [answer(headers=['ETag: "1"']), answer(304, b"", headers=['ETag: "1"'])]
    with ScriptedOrigin(*steps) as origin:
        serve(origin, cache=policy())
        get(ghost, "/page")
        assert invalidate(ghost, uri("/page"), mode="soft") == [1]
        assert (get(ghost, "/page"), get(ghost, "/page")) == ("stale", "hit")
        assert (len(origin.requests), index(ghost)["objects"]) == (2, 1)


def test_hard_one_leaves_nothing(ghost, serve):
    with ScriptedOrigin(answer(headers=['ETag: "1"'])) as origin:
        serve(origin, cache=policy(grace=60_000, stale_if_error=60_000))
        get(ghost, "/page")
        assert invalidate(ghost, uri("/page")) == [1]
        assert get(ghost, "/page") == "uri-miss"
        assert b"If-None-Match" not in origin.requests[1]


@pytest.mark.parametrize(
    "target",
    [uri("/page"), prefix("/pa"), matching("age"), {"host": HOST}, {"tags": ["x"]}, {"route": "default/r"}, EVERYTHING],
    ids=lambda target: next(iter(target)),
)
@pytest.mark.parametrize(("mode", "expected"), [("hard", "uri-miss"), ("soft", "stale")])
def test_response_that_was_being_fetched_is_not_fresh(ghost, serve, target, mode, expected):
    arrived = threading.Event()
    first = answer(body=b"old", headers=["Surrogate-Key: x", 'ETag: "1"'])
    with ScriptedOrigin(once(arrived, first), answer(body=b"new")) as origin, ThreadPoolExecutor() as clients:
        serve(origin, cache=policy(tag_headers=("Surrogate-Key",)))
        waiting = clients.submit(ghost.get, "/page", host=HOST)
        until(lambda: len(origin.requests) == 1, "the origin is asked")
        assert invalidate(ghost, target, mode=mode) == [0]
        arrived.set()
        assert waiting.result().body == b"old"
        second = ghost.get("/page", host=HOST)
        assert (outcome(second), second.body) == (expected, b"new")


def test_response_that_is_fetched_for_another_uri_stays_fresh(ghost, serve):
    arrived = threading.Event()
    with ScriptedOrigin(once(arrived, answer())) as origin, ThreadPoolExecutor() as clients:
        serve(origin, cache=policy())
        waiting = clients.submit(ghost.get, "/page", host=HOST)
        until(lambda: len(origin.requests) == 1, "the origin is asked")
        invalidate(ghost, uri("/other"), prefix("/page/"), {"tags": ["x"]}, {"route": "default/other"})
        arrived.set()
        waiting.result()
        assert get(ghost, "/page") == "hit"


# -- requests that are wrong -----------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", "EOF while parsing"),
        (b"{}", "missing field `targets`"),
        (b'{"targets": []}', "targets: is empty"),
        (json.dumps({"targets": [EVERYTHING] * 10_001}).encode(), "targets: has 10001 targets, and 10000 is the limit"),
        (b'{"mode": "warm", "targets": [{"everything": true}]}', "mode: unknown variant `warm`"),
        (b'{"target": 1, "targets": []}', "target: unknown field `target`"),
        (b'{"targets": [{"everything": true}, {"url": "/"}]}', "targets[1]: unknown variant `url`"),
        (b'{"targets": [{"everything": true}, {"uri": {"host": "a"}}]}', "targets[1].uri: missing field `target`"),
        (b'{"targets": [{"everything": true}, {"uri": {"host": "a b", "target": "/"}}]}', "targets[1].uri.host: "),
        (b'{"targets": [{"everything": true}, {"uri": {"host": "a", "target": "x"}}]}', "targets[1].uri.target: "),
        (b'{"targets": [{"everything": true}, {"host": ""}]}', "targets[1].host: is no host name"),
        (b'{"targets": [{"everything": true}, {"prefix": {"host": "a", "prefix": ""}}]}', "targets[1].prefix.prefix: "),
        (
            b'{"targets": [{"everything": true}, {"matching": {"host": "a", "pattern": "(x"}}]}',
            'targets[1].matching.pattern: "(x" is not a regular expression: unclosed group',
        ),
        (
            b'{"targets": [{"everything": true}, {"matching": {"host": "a", "pattern": "(a{9}){9999}"}}]}',
            "targets[1].matching.pattern: ",
        ),
        (b'{"targets": [{"everything": true}, {"tags": ["x", "%zz"]}]}', "targets[1].tags[1]: % stands before"),
        (b'{"targets": [{"everything": true}, {"tags": "x"}]}', "targets[1].tags: invalid type: string"),
        (b'{"targets": [{"everything": false}]}', "targets[0].everything: is false"),
    ],
)
def test_wrong_request_is_rejected_and_nothing_is_carried_out(ghost, serve, body, error):
    with ScriptedOrigin(answer()) as origin:
        serve(origin, cache=policy())
        get(ghost, "/page")
        found = ask(ghost, body)
        assert found.status == 400
        assert found.json["error"].startswith(error)
        assert get(ghost, "/page") == "hit"


def test_regular_expressions_of_a_request_have_one_budget(ghost):
    targets = [matching(f"/{number}/[a-z]{{200}}x") for number in range(60)]
    assert ask(ghost, json.dumps({"targets": targets[:1]}).encode()).status == 200
    rejected = ask(ghost, json.dumps({"targets": targets}).encode())
    assert (rejected.status, "more than the budget" in rejected.json["error"]) == (400, True)


def test_request_of_four_megabytes_is_read_and_a_larger_one_rejected(ghost):
    def padded(size: int) -> bytes:
        return json.dumps({"targets": [{"tags": ["x"]}]}).encode().ljust(size)

    assert ask(ghost, padded(4 << 20)).json == {"objects": [0]}
    assert ask(ghost, padded((4 << 20) + 1)).status == 413
    assert ask(ghost, padded(100)).status == 200


def test_chunked_request_is_read(ghost):
    body = json.dumps({"targets": [{"tags": ["x"]}]}).encode()
    head = b"POST /.varnish-ghost/invalidate HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    found = ghost.raw(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks, socket_name="ghost-reload")
    assert found.endswith(b'{"objects":[0]}')


def test_only_a_post_for_localhost_on_the_reload_socket_invalidates(ghost, serve):
    body = json.dumps({"targets": [EVERYTHING]}).encode()
    with ScriptedOrigin(answer()) as origin:
        serve(origin, cache=policy())
        get(ghost, "/page")
        assert ask(ghost, body, host="rebound.example").status == 421
        assert ghost.get("/.varnish-ghost/invalidate", socket="ghost-reload", host="localhost").status == 405
        ghost.get("/.varnish-ghost/invalidate", method="POST", host="localhost", body=body)
        assert get(ghost, "/page") == "hit"
