"""PURGE, BAN and PURGEKEYS of clients: who may, what they reach, what is rejected."""

import json
import threading

import pytest
from msgspec import structs

from support.http.scripted_origin import ScriptedOrigin, answer, once
from support.varnish.caching import outcome, policy
from support.varnish.ghost import Config, backend, route, to
from support.varnish.ghost import prefix as under
from support.waiting import until
from varnish_gateway.ir import wire

HOST = "shop.example.com"
LOCAL = wire.RequestRules(purge_ranges=("127.0.0.0/8", "::1/128"))
CACHE = policy(grace=60_000, tag_headers=("Surrogate-Key",), cache_key=wire.CacheKey(headers=("x-kind",)))

pytestmark = pytest.mark.usefixtures("empty_cache", "empty_index")


@pytest.fixture
def shop(ghost, tea):
    """Serve the namespaces "default" and, under /mug, "mugs", with rules for requests."""

    def serve(requests: wire.RequestRules | None = LOCAL, origin=tea, **rule):
        pools = {"tea": [origin if isinstance(origin, (wire.Endpoint, type(tea))) else origin.endpoint]}
        own = route("shop", to(backend("tea"), cache=CACHE, **rule), hosts=[HOST, "b.example"])
        other = route("mugs", to(backend("tea"), cache=CACHE, matches=[under("/mug")]), hosts=[HOST])
        config = Config([own, structs.replace(other, namespace="mugs")], pools, requests=requests)
        assert ghost.reload(config).status == 200
        return ghost

    return serve


def store(ghost, path: str, tags: str = "", *, host: str = HOST, kind: str = "") -> None:
    lines = [("Echo-Answer", json.dumps([f"Surrogate-Key: {tags}"] if tags else []))]
    lines += [("X-Kind", kind)] if kind else []
    assert get(ghost, path, host=host, headers=lines) == "uri-miss"


def get(ghost, path: str, *, host: str = HOST, **request) -> str:
    return outcome(ghost.get(path, host=host, **request))


def ask(ghost, method: str, path: str = "/", *headers: tuple[str, str], host: str = HOST):
    return ghost.get(path, method=method, host=host, headers=list(headers))


def purges(ghost) -> dict[str, int]:
    return ghost.counters()["purges"]


def counted(ghost, before: dict[str, int]) -> dict[str, int]:
    return {name: count - before[name] for name, count in purges(ghost).items() if count != before[name]}


# -- who may ---------------------------------------------------------------------------


def test_off_by_default_and_then_a_request_like_others(ghost, shop, tea):
    shop(requests=None)
    store(ghost, "/page")
    tea.seen.clear()
    before = purges(ghost)
    assert ask(ghost, "PURGE", "/page").status == 200
    assert [one.method for one in tea.seen] == ["PURGE"]
    assert counted(ghost, before) == {}


@pytest.mark.parametrize("method", ["PURGE", "BAN", "PURGEKEYS"])
def test_client_of_another_address_gets_405_and_no_backend_the_request(ghost, shop, tea, method):
    shop(wire.RequestRules(purge_ranges=("192.0.2.0/24",)))
    store(ghost, "/page", "x")
    tea.seen.clear()
    before = purges(ghost)
    answer = ask(ghost, method, "/page", ("xkey-purge", "x"))
    assert (answer.status, "allowedSourceRanges" in answer.json["reason"]) == (405, True)
    assert (tea.seen, counted(ghost, before)) == ([], {"denied": 1})
    assert get(ghost, "/page") == "hit"
    assert ask(ghost, "REPORT", "/page").status == 200, "other methods are for backends"


@pytest.mark.parametrize(
    ("trust", "forwarded", "status"),
    [
        ({}, "192.0.2.5", 405),
        ({"trusted_hops": 0}, "192.0.2.5", 405),
        ({"trusted_ranges": ("10.0.0.0/8",)}, "192.0.2.5", 405),
        ({"trusted_hops": 1}, "192.0.2.5", 200),
        ({"trusted_hops": 1}, "192.0.2.5, 6.6.6.6", 405),
        ({"trusted_ranges": ("127.0.0.0/8",)}, "192.0.2.5", 200),
        ({"trusted_ranges": ("127.0.0.0/8",)}, "192.0.2.5, 6.6.6.6", 405),
        ({"trusted_ranges": ("127.0.0.0/8",)}, "192.0.2.5 ", 200),
    ],
)
def test_address_that_a_client_claims_counts_only_where_a_trusted_proxy_says_so(ghost, shop, trust, forwarded, status):
    shop(wire.RequestRules(purge_ranges=("192.0.2.0/24",), **trust))
    assert ask(ghost, "PURGE", "/page", ("X-Forwarded-For", forwarded)).status == status


def test_allowed_proxy_is_no_allowed_client(ghost, shop):
    shop(structs.replace(LOCAL, trusted_ranges=("127.0.0.0/8",)))
    assert ask(ghost, "PURGE", "/page", ("X-Forwarded-For", "6.6.6.6")).status == 405
    assert ask(ghost, "PURGE", "/page").status == 200


def test_request_that_this_gateway_has_sent_on_is_denied(ghost, shop):
    shop()
    assert ask(ghost, "PURGE", "/page", ("CDN-Loop", "another-cdn")).status == 200
    assert ask(ghost, "PURGE", "/page", ("CDN-Loop", "varnish-gateway")).status == 405


@pytest.mark.parametrize("peer", ["plain", "proxy"])
@pytest.mark.parametrize(
    "code",
    [
        'set req.http.X-Forwarded-For = "192.0.2.5"; set req.url = "/other";',
        'set req.http.X-Forwarded-For = "192.0.2.5, 127.0.0.1"; set req.url = "/other";',
        "std.rollback(req);",
        'std.rollback(req); set req.url = "/other";',
        "if (req.restarts == 0) { std.rollback(req); return (restart); }",
        'if (req.restarts == 0) { set req.http.X-Forwarded-For = "192.0.2.5"; return (restart); }',
    ],
)
def test_denied_client_stays_denied_whatever_user_vcl_does(ghost, shop, tea, code, peer):
    trust = {"trusted_ranges": ("127.0.0.0/8",)} if peer == "proxy" else {}
    claimed = "192.0.2.5, 6.6.6.6" if peer == "proxy" else "192.0.2.5"
    ghost.load_vcl(f'import std; sub vcl_recv {{ if (req.method ~ "^PURGE$") {{ {code} }} }}')
    shop(wire.RequestRules(purge_ranges=("192.0.2.0/24",), **trust))
    store(ghost, "/page")
    tea.seen.clear()
    before = purges(ghost)
    assert ask(ghost, "PURGE", "/page", ("X-Forwarded-For", claimed)).status == 405
    assert (counted(ghost, before), tea.seen, get(ghost, "/page")) == ({"denied": 1}, [], "hit")


def test_allowed_client_stays_allowed_after_a_rollback(ghost, shop):
    ghost.load_vcl("import std; sub vcl_deliver { if (req.restarts == 0) { std.rollback(req); return (restart); } }")
    shop()
    assert ask(ghost, "PURGE", "/page", ("X-Forwarded-For", "6.6.6.6")).status == 200


# -- what it reaches -------------------------------------------------------------------


def test_purge_removes_all_variants_and_keys_of_what_clients_requested(ghost, shop):
    path = wire.PathModifier(type="full", value="/inner")
    shop(filters=wire.Filters(rewrite=wire.Rewrite(path=path)))
    for kind in "abc":
        store(ghost, "/page?b=2&a=1", kind=kind)
    store(ghost, "/page", kind="a")
    before = purges(ghost)
    answer = ask(ghost, "PURGE", "/x/../page?a=1&b=2")
    assert (answer.status, answer.json) == (200, {"namespace": "default", "objects": 3})
    assert answer.values("content-type") == ["application/json"]
    assert counted(ghost, before) == {"done": 1}
    assert get(ghost, "/page?b=2&a=1", headers=[("X-Kind", "a")]) == "uri-miss"
    assert get(ghost, "/page", headers=[("X-Kind", "a")]) == "hit"
    assert ask(ghost, "PURGE", "/never").json["objects"] == 0


def test_only_what_the_namespace_of_its_route_has_stored_is_reached(ghost, shop):
    shop()
    for path in ("/a", "/mug/a"):
        store(ghost, path, "x")
    assert ask(ghost, "BAN", "/mug", ("Surrogate-Key", "x")).json["objects"] == 1
    assert (get(ghost, "/a"), get(ghost, "/mug/a")) == ("hit", "uri-miss")
    for method, path, *headers in [
        ("PURGE", "/.*", ("X-Purge-Method", "regex")),
        ("BAN", "/.*"),
        ("BAN", "/", ("X-Host", "^shop.example.com$")),
        ("BAN", "/", ("X-Host", ".*"), ("X-Url", ".*")),
        ("PURGE", "/", ("X-Magento-Tags-Pattern", ".*")),
        ("PURGE", "/", ("X-Purge-Method", "prefix")),
    ]:
        assert ask(ghost, method, path, *headers).json["objects"] == 1, (method, headers)
        assert get(ghost, "/mug/a") == "hit", (method, headers)
        store(ghost, "/a", "x")


def test_other_hosts_of_the_namespace_are_reached_by_name_and_by_tag(ghost, shop):
    shop()
    store(ghost, "/a", "x", host="b.example")
    assert ask(ghost, "PURGE", "/a").json["objects"] == 0
    assert (
        ask(ghost, "BAN", "/", ("X-Host", r"^(shop\.example\.com|b\.example)$"), ("X-Url", "^/a$")).json["objects"] == 1
    )
    store(ghost, "/a", "x", host="b.example")
    assert ask(ghost, "PURGE", "/", ("Surrogate-Key", "y x")).json["objects"] == 1


def test_request_that_no_route_takes_invalidates_nothing(ghost, shop):
    shop()
    store(ghost, "/a", "x")
    assert ask(ghost, "BAN", "/", ("Surrogate-Key", "x"), host="other.example").status == 404
    assert get(ghost, "/a") == "hit"


def test_rule_that_forwards_nowhere_gets_404_and_a_reason(ghost, shop):
    shop()
    redirect = wire.Rule(matches=(wire.Match(),), redirect=wire.Redirect(scheme="https"))
    moved = structs.replace(route("moved", redirect, hosts=[HOST]), namespace="infra")
    assert ghost.reload(Config([moved], requests=LOCAL)).status == 200
    before = purges(ghost)
    answer = ask(ghost, "PURGE", "/page")
    reason = "the rule for this host and path has no backend; purge at the listener that serves the pages"
    assert (answer.status, answer.json["reason"], counted(ghost, before)) == (404, reason, {})


def test_rule_is_found_as_for_a_get(ghost, shop):
    shop(matches=[wire.Match(method="GET")])
    store(ghost, "/a")
    assert ask(ghost, "PURGE", "/a").json["objects"] == 1


def test_soft_purge_of_keys_leaves_what_may_be_used_stale(ghost, shop):
    with ScriptedOrigin(answer(body=b"one", headers=["Surrogate-Key: x"]), answer(body=b"two")) as origin:
        shop(origin=origin)
        get(ghost, "/page")
        assert ask(ghost, "PURGEKEYS", "/", ("xkey-softpurge", "x")).json["objects"] == 1
        assert ghost.get("/page", host=HOST).body == b"one"
        until(lambda: ghost.get("/page", host=HOST).body == b"two", "the response is refreshed")


def test_response_that_was_being_fetched_is_not_fresh(ghost, shop):
    arrived = threading.Event()
    with ScriptedOrigin(once(arrived, answer(body=b"old")), answer(body=b"new")) as origin:
        shop(origin=origin)
        client = threading.Thread(target=ghost.get, args=("/page",), kwargs={"host": HOST})
        client.start()
        until(lambda: len(origin.requests) == 1, "the origin is asked")
        assert ask(ghost, "PURGE", "/page").json["objects"] == 0
        arrived.set()
        client.join()
        assert ghost.get("/page", host=HOST).body == b"new"


# -- what is rejected ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_line", "headers", "reason"),
    [
        ("PURGE /", {"X-Magento-Tags-Pattern": "cat_p_.*"}, "X-Magento-Tags-Pattern: only exact tags are supported"),
        ("BAN /", {"Cache-Tags": "x|.*"}, "Cache-Tags: only exact tags are supported"),
        ("PURGE /", {"X-Purge-Method": "fuzzy"}, "X-Purge-Method: write default"),
        ("PURGE /(", {"X-Purge-Method": "regex"}, 'the path: "/(" is not a regular expression'),
        ("PURGE /", {"X-Pool": "x"}, "X-Pool: is not supported"),
        ("BAN /", {"X-Url": "^/a"}, "X-Host: name the hosts"),
        ("BAN /", {"X-Host": "^.*example$", "X-Url": "x"}, "X-Host: only names of hosts"),
        ("BAN /", {"X-Content-Type": "text/html", "X-Url": ".*"}, "X-Content-Type: only .* is supported"),
        ("BAN /", {}, "this BAN names nothing"),
        ("BAN /a/../.*", {}, "the path is an expression or a prefix"),
        ("PURGE /./page", {"X-Purge-Method": "prefix"}, "the path is an expression or a prefix"),
        ("PURGE /page", {"X-Magento-Tags": "x"}, "X-Magento-Tags: is not supported; remove it"),
        ("BAN /", {"X-Host": "example.com"}, "X-Host: matches within names of other hosts"),
        ("PURGEKEYS /", {"xkey": "x"}, "PURGEKEYS takes xkey-purge or xkey-softpurge"),
        ("PURGEKEYS /", {"xkey-purge": "x", "xkey-softpurge": "x"}, "xkey-purge and xkey-softpurge: send one"),
    ],
)
def test_what_is_not_supported_is_rejected_and_nothing_is_done(ghost, shop, request_line, headers, reason):
    shop()
    store(ghost, "/page", "x")
    before = purges(ghost)
    answer = ask(ghost, *request_line.split(), *headers.items())
    assert (answer.status, answer.json["reason"][: len(reason)]) == (400, reason)
    assert counted(ghost, before) == {"malformed": 1}
    assert get(ghost, "/page") == "hit"


def test_text_that_would_be_another_condition_in_a_ban_is_tags(ghost, shop):
    shop()
    store(ghost, "/page", "x")
    for value in ['y" || req.url ~ "/', "y || obj.status == 200", "y && req.http.host ~ ."]:
        assert ask(ghost, "BAN", "/", ("Cache-Tags", value)).json["objects"] == 0
    assert get(ghost, "/page") == "hit"


def test_repeated_header_is_rejected(ghost, shop):
    shop()
    answer = ask(ghost, "PURGE", "/", ("Surrogate-Key", "x"), ("Surrogate-Key", "y"))
    assert (answer.status, answer.json["reason"]) == (400, "Surrogate-Key: is there more than once; send one")


# -- what it costs ---------------------------------------------------------------------


def test_body_is_not_waited_for(ghost, shop):
    shop()
    store(ghost, "/page")
    head = f"PURGE /page HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 1000\r\n\r\n".encode()
    head_of_answer, _, body = ghost.raw(head).partition(b"\r\n\r\n")
    assert (head_of_answer.split()[1], json.loads(body)) == (b"200", {"namespace": "default", "objects": 1})


def test_it_counts_for_its_route(ghost, shop):
    shop()
    before = ghost.counters()["routes"]["default/shop"]["status"]["2xx"]
    ask(ghost, "PURGE", "/page")
    assert ghost.counters()["routes"]["default/shop"]["status"]["2xx"] == before + 1


# -- user VCL --------------------------------------------------------------------------


def test_user_vcl_neither_sees_nor_looks_up_what_is_carried_out(ghost, shop):
    ghost.load_vcl('sub vcl_recv { if (req.method == "PURGE") { return (synth(418)); } return (hash); }')
    shop()
    store(ghost, "/page")
    assert ask(ghost, "PURGE", "/page").json["objects"] == 1
    shop(requests=None)
    assert ask(ghost, "PURGE", "/page").status == 418, "off: it belongs to user VCL"


def test_method_that_user_vcl_changes_later_is_the_one_that_was_sent(ghost, shop):
    ghost.load_vcl('sub vcl_pass { set req.method = "REPORT"; }')
    shop()
    store(ghost, "/page")
    assert ask(ghost, "BAN", "/.*").json["objects"] == 1
