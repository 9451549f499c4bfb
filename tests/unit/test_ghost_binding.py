"""The Rust router as Python sees it, and that both sides mean the same wire format."""

from typing import Any

import msgspec
import pytest

from varnish_gateway import _ghost
from varnish_gateway.ir import wire

EVERY_FIELD = wire.Routing(
    version=2,
    shard=0,
    shards=4,
    requests=wire.RequestRules(trusted_ranges=("10.0.0.0/8",), merge_slashes=True, reject=("%2F", "%5C", "..;")),
    listeners=(wire.Listener(name="web", socket="http-80", port=8080, scheme="https", hostname="*.example.com"),),
    routes=(
        wire.Route(
            namespace="shop",
            name="cafe",
            created=1700000000,
            attachments=(wire.Attachment(listener="web", hostnames=("cafe.example.com", "*.example.com")),),
            rules=(
                wire.Rule(
                    name="tea",
                    matches=(
                        wire.Match(
                            path=wire.PathMatch(type="prefix", value="/tea"),
                            method="GET",
                            headers=(wire.ValueMatch(name="x-leaf", value="gr.*", type="regex"),),
                            query=(wire.ValueMatch(name="hot", value="1"),),
                        ),
                    ),
                    filters=wire.Filters(
                        request=wire.HeaderModifier(
                            set=(wire.Header(name="A", value="1"),),
                            add=(wire.Header(name="B", value="2"),),
                            remove=("c",),
                        ),
                        response=wire.HeaderModifier(remove=("d",)),
                        rewrite=wire.Rewrite(
                            hostname="tea.internal", path=wire.PathModifier(type="prefix", value="/leaf")
                        ),
                    ),
                    backends=(
                        wire.Backend(weight=3, service="shop/tea", port=80, port_name="http", external="tea.org"),
                        wire.Backend(status=500, filters=wire.Filters(rewrite=wire.Rewrite(hostname="x"))),
                    ),
                ),
                wire.Rule(
                    matches=(wire.Match(path=wire.PathMatch(type="exact", value="/old")),),
                    redirect=wire.Redirect(
                        scheme="http",
                        hostname="new.example.com",
                        port=8081,
                        path=wire.PathModifier(type="full", value="/new"),
                        status=308,
                    ),
                ),
                wire.Rule(matches=(wire.Match(path=wire.PathMatch(type="regex", value="/v[0-9]+")),), status=500),
            ),
        ),
    ),
)


def explain(url: str, *, method: str = "GET", headers: tuple[tuple[str, str], ...] = ()) -> Any:
    router = _ghost.Router()
    router.update(msgspec.json.encode(EVERY_FIELD))
    return msgspec.json.decode(router.explain("http-80", method, url, headers))


def test_every_field_of_the_wire_format_survives() -> None:
    _ghost.check_routing(msgspec.json.encode(EVERY_FIELD))
    (route,) = EVERY_FIELD.routes
    urls = ("/tea?hot=1", "/old", "/v1")
    for url, rule in zip(urls, route.rules, strict=True):
        answer = explain(f"http://cafe.example.com{url}", headers=(("X-Leaf", "green"),))
        assert msgspec.convert(answer["listener"], wire.Listener) == EVERY_FIELD.listeners[0]
        assert msgspec.convert(answer["winner"]["rule"], wire.Rule) == rule
        assert msgspec.convert(answer["winner"]["match"], wire.Match) == rule.matches[0]


def test_winner_names_its_backends_and_the_rewritten_request() -> None:
    winner = explain("http://cafe.example.com/tea/pot?hot=1", headers=(("x-leaf", "green"),))["winner"]
    assert (winner["route"], winner["identity"], winner["hostname"]) == (
        "shop/cafe",
        "shop/cafe/tea",
        "cafe.example.com",
    )
    assert winner["rewritten"] == "/leaf/pot?hot=1"
    assert winner["backends"] == [
        {"pool": "shop/tea:80", "status": None, "weight": 3, "probability": 0.75},
        {"pool": None, "status": 500, "weight": 1, "probability": 0.25},
    ]


def test_redirect_reports_its_location() -> None:
    winner = explain("/old?q", headers=(("Host", "cafe.example.com"),))["winner"]
    assert winner["location"] == "http://new.example.com:8081/new?q"


def test_runner_up_reports_why_it_lost() -> None:
    answer = explain("http://cafe.example.com/tea?hot=1", method="PUT")
    assert answer["winner"] is None
    losses = {each["identity"]: each["reason"] for each in answer["runnersUp"]}
    assert losses["shop/cafe/tea"] == "it takes the method GET only"


def test_url_is_read_as_ghost_reads_it() -> None:
    answer = explain("http://Cafe.Example.com:8080/a/../old")
    assert (answer["host"], answer["target"]) == ("cafe.example.com", "/old")
    assert answer["winner"]["ruleIndex"] == 1
    assert explain("http://cafe.example.com?hot=1")["target"] == "/?hot=1"
    assert explain("/x")["listener"] is None


@pytest.mark.parametrize("url", ["http://a b/", "http://cafe.example.com/#x", "tea", ""])
def test_request_that_ghost_answers_with_400_is_an_error(url: str) -> None:
    with pytest.raises(ValueError, match="malformed: 400"):
        explain(url)


def test_connect_and_malformed_target_are_errors() -> None:
    with pytest.raises(ValueError, match="CONNECT is not served: 405"):
        explain("http://cafe.example.com/tea", method="CONNECT")
    with pytest.raises(ValueError, match="malformed: 400"):
        explain("*", headers=(("Host", "cafe.example.com"),))
    assert explain("*", method="OPTIONS", headers=(("Host", "cafe.example.com"),))["target"] == "*"


def test_shard_replaces_the_one_of_its_number() -> None:
    router = _ghost.Router()
    router.update(msgspec.json.encode(EVERY_FIELD))
    other = wire.Routing(version=2, shard=1, shards=4, routes=())
    router.update(msgspec.json.encode(other))
    assert _winner(router) == "shop/cafe/1"
    router.update(msgspec.json.encode(msgspec.structs.replace(EVERY_FIELD, routes=())))
    assert _winner(router) is None


def test_bad_shard_changes_nothing() -> None:
    router = _ghost.Router()
    router.update(msgspec.json.encode(EVERY_FIELD))
    bad = wire.PathMatch(type="regex", value="(")
    route = wire.Route(
        namespace="shop", name="bad", attachments=(), rules=(wire.Rule(), wire.Rule(matches=(wire.Match(path=bad),)))
    )
    with pytest.raises(ValueError, match=r"route shop/bad, rule 1, match 0: .* unclosed group"):
        router.update(msgspec.json.encode(wire.Routing(version=2, routes=(route,))))
    assert _winner(router) == "shop/cafe/1"


def _winner(router: _ghost.Router) -> str | None:
    answer = msgspec.json.decode(router.explain("http-80", "GET", "http://cafe.example.com/old", []))
    identity: str | None = answer["winner"] and answer["winner"]["identity"]
    return identity


@pytest.mark.parametrize("pattern", ["", "/a.*", "(?i)tea|coffee", r"/v\d+", "[^/]+"])
def test_regex_is_taken(pattern: str) -> None:
    charge, why = _ghost.compile_regex(pattern)
    assert 0 < charge < _ghost.route_regex_budget() / 100
    assert why is None


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(", "unclosed group"),
        ("a)|(b", "unopened group"),
        ("(?=a)", "look-ahead"),
        (r"(a)\1", "backreferences"),
        ("(a{1000}){1000}", "too large"),
    ],
)
def test_invalid_regex_is_rejected_with_a_reason_in_one_line(pattern: str, reason: str) -> None:
    _, why = _ghost.compile_regex(pattern)
    assert why is not None
    assert reason in why
    assert "\n" not in why


@pytest.mark.parametrize(
    ("document", "field"),
    [
        (b'{"version": 2, "route": []}', "route: unknown field"),
        (b'{"version": 1}', "version"),
        (b'{"version": 2, "routes": [{"namespace": 1}]}', r"routes\[0\].namespace: invalid type"),
        (b"{", "EOF"),
    ],
)
def test_refusal_names_the_field(document: bytes, field: str) -> None:
    with pytest.raises(ValueError, match=field):
        _ghost.check_routing(document)


def test_other_documents_are_checked_too() -> None:
    endpoints = wire.Endpoints(version=2, pools={"a/b:80": (wire.Endpoint(address="::1", port=80),), "a/c:80": ()})
    _ghost.check_endpoints(msgspec.json.encode(endpoints))
    _ghost.check_config(msgspec.json.encode(wire.Manifest(version=2, id="x", routing=("a",), endpoints=("b",))))
    _ghost.check_config(b'{"version": 1, "vhosts": {"a": {"backends": [{"address": "10.0.0.1", "port": 80}]}}}')
    with pytest.raises(ValueError, match=r"pools.a/b:80\[0\].port"):
        _ghost.check_endpoints(b'{"version": 2, "pools": {"a/b:80": [{"address": "::1", "port": 99999}]}}')
    with pytest.raises(ValueError, match="missing field `id`"):
        _ghost.check_config(b'{"version": 2}')
