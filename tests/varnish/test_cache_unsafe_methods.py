"""What a successful unsafe request invalidates (RFC 9111, section 4.4)."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.http.scripted_origin import ScriptedOrigin, answer, once
from support.varnish.caching import outcome, policy
from support.varnish.ghost import Config, backend, prefix, route, to
from support.varnish.invalidation import HOST
from support.waiting import until
from varnish_gateway.ir import wire

pytestmark = pytest.mark.usefixtures("empty_cache", "empty_index")


def get(ghost, path: str = "/page", *, host: str = HOST, **request) -> str:
    return outcome(ghost.get(path, host=host, **request))


def post(ghost, path: str = "/page", *lines: str, method: str = "POST", host: str = HOST, failing: bool = False):
    headers = [("Echo-Answer", json.dumps(lines))]
    if failing:
        headers.append(("Echo-Failures", f"500 1 {path}"))
    return ghost.get(path, method=method, host=host, headers=headers, body=b"x")


def by_method(name: str, *methods: str, namespace: str = "default", **rule) -> wire.Route:
    matches = [wire.Match(method=method) for method in methods]
    attachments = (wire.Attachment(listener="http", hostnames=("*",)),)
    rules = (to(backend("tea"), matches=matches, **rule),)
    return wire.Route(namespace=namespace, name=name, attachments=attachments, rules=rules)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "PROPFIND"])
def test_unsafe_request_invalidates_its_uri_in_all_variants(ghost, serve, tea, method):
    serve(tea, cache=policy(cache_key=wire.CacheKey(headers=("x-kind",)), grace=60_000))
    kinds = [{"headers": [("X-Kind", kind)]} for kind in "ab"]
    assert [get(ghost, "/page?b=1&a=2", **kind) for kind in kinds] == ["uri-miss", "uri-miss"]
    get(ghost, "/page")
    assert post(ghost, "/page?a=2&b=1", method=method).status == 200
    assert [get(ghost, "/page?b=1&a=2", **kind) for kind in kinds] == ["uri-miss", "uri-miss"]
    assert get(ghost, "/page") == "hit"


@pytest.mark.parametrize("method", ["OPTIONS", "HEAD"])
def test_safe_request_invalidates_nothing(ghost, serve, tea, method):
    serve(tea, cache=policy(bypass=wire.Bypass(methods=("HEAD",)) if method == "HEAD" else wire.Bypass()))
    get(ghost)
    ghost.get("/page", method=method, host=HOST)
    assert get(ghost) == "hit"


def test_unsafe_request_that_fails_invalidates_nothing(ghost, serve, tea):
    serve(tea, cache=policy())
    get(ghost)
    assert post(ghost, failing=True).status == 500
    assert get(ghost) == "hit"


@pytest.mark.parametrize("cache", [policy(), None])
def test_rule_of_the_unsafe_request_may_be_another_one(ghost, tea, cache):
    reading, writing = by_method("reading", "GET", cache=policy()), by_method("writing", "POST", cache=cache)
    assert ghost.reload(Config([reading, writing], {"tea": [tea]})).status == 200
    get(ghost)
    post(ghost)
    assert get(ghost) == "uri-miss"


def test_uri_is_that_of_the_client_where_a_rule_rewrites_it(ghost, tea):
    path = wire.PathModifier(type="full", value="/inner")
    rewrite = wire.Filters(rewrite=wire.Rewrite(path=path))
    rules = [to(backend("tea"), matches=[prefix("/a")], cache=policy(), filters=rewrite)]
    assert ghost.reload(Config([route("r", *rules, to(backend("tea"), cache=policy()))], {"tea": [tea]})).status == 200
    for target in ("/a", "/inner"):
        get(ghost, target)
    post(ghost, "/a")
    assert (get(ghost, "/a"), get(ghost, "/inner")) == ("uri-miss", "hit")


@pytest.mark.parametrize(
    ("reference", "hit"),
    [
        ("/orders/17", True),
        ("17", True),
        ("http://tea.example/orders/17", True),
        ("//TEA.example:80/orders/./17#part", True),
        ("https://tea.example/orders/17", False),
        ("http://tea.example:8080/orders/17", False),
        ("http://other.example/orders/17", False),
        ("/orders/18", False),
    ],
)
def test_location_of_the_same_origin_is_invalidated(ghost, serve, tea, reference, hit):
    serve(tea, cache=policy())
    for field in ("Location", "Content-Location"):
        for host in (HOST, "other.example"):
            get(ghost, "/orders/17", host=host)
        post(ghost, "/orders/new", f"{field}: {reference}")
        assert get(ghost, "/orders/17") == ("uri-miss" if hit else "hit")
        assert get(ghost, "/orders/17", host="other.example") == "hit"


def test_both_locations_are_invalidated(ghost, serve, tea):
    serve(tea, cache=policy())
    for path in "/a", "/b":
        get(ghost, path)
    post(ghost, "/new", "Location: /a", "Content-Location: /b")
    assert [get(ghost, path) for path in ("/a", "/b")] == ["uri-miss", "uri-miss"]


@pytest.mark.parametrize("written", ["/new", "/page"])
def test_unsafe_request_reaches_no_object_of_another_namespace(ghost, tea, written):
    """One tenant must not empty the cache of another, with whom it has a host in common."""
    reading = by_method("reading", "GET", cache=policy())
    for namespace, expected in [("other", "hit"), ("default", "uri-miss")]:
        writing = by_method("writing", "POST", namespace=namespace, cache=policy())
        assert ghost.reload(Config([reading, writing], {"tea": [tea]})).status == 200
        get(ghost, "/page")
        post(ghost, written, "Location: /page")
        assert get(ghost, "/page") == expected


def test_response_that_was_being_fetched_is_not_used_afterwards(ghost, serve):
    arrived = threading.Event()
    steps = [once(arrived, answer(body=b"old")), answer(body=b"written"), answer(body=b"new")]
    with ScriptedOrigin(*steps) as origin, ThreadPoolExecutor() as clients:
        serve(origin, cache=policy(grace=60_000))
        waiting = clients.submit(ghost.get, "/page", host=HOST)
        until(lambda: len(origin.requests) == 1, "the origin is asked")
        assert ghost.get("/page", method="POST", host=HOST, body=b"x").body == b"written"
        arrived.set()
        waiting.result()
        assert ghost.get("/page", host=HOST).body == b"new"


def test_own_response_of_the_gateway_invalidates_nothing(ghost, tea):
    redirect = wire.Rule(matches=(wire.Match(method="POST"),), redirect=wire.Redirect(hostname="b.example", status=302))
    routes = [by_method("reading", "GET", cache=policy()), route("writing", redirect)]
    assert ghost.reload(Config(routes, {"tea": [tea]})).status == 200
    get(ghost)
    assert post(ghost).status == 302
    assert get(ghost) == "hit"
