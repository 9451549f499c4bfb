"""Bad input and faults: defined answers, one request at most, the child lives."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.varnish.ghost import ROOT, Config, GhostHarness, backend, prefix, route, to
from support.waiting import until
from varnish_gateway.ir import wire

PANICKING = Path(os.environ.get("GHOST_VMOD_PANIC", ROOT / "build" / "libvmod_ghost_panic.so"))


@pytest.fixture(scope="module")
def ghost(tea) -> Iterator[GhostHarness]:
    by_header = wire.Match(headers=(wire.ValueMatch(name="x-kind", value=".+", type="regex"),))
    routes = [route("any", to(backend("tea"))), route("header", to(backend("tea"), matches=[by_header]))]
    with GhostHarness(Config(routes, {"tea": [tea]})) as running:
        child = running.child
        yield running
        assert running.child == child


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/", [("X-Kind", b"\xff\xfe caf\xe9")]),
        ("/%ff%00%2F%2e%2e/x", []),
        ("/?&=&a=&=b&&%=%zz", []),
        ("/" + "a/" * 5000, []),
        ("/" + "../" * 3000, []),
        ("/", [("X-Kind", str(n)) for n in range(40)]),
        ("//", []),
        ("/;x=1?" + "k=v&" * 2000, []),
    ],
)
def test_odd_requests_are_served(ghost, path, headers):
    assert ghost.get(path, headers=headers).status == 200


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /\xff\xfe HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", b"200"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: caf\xe9\r\nConnection: close\r\n\r\n", b"400"),
        (b"GET / HTTP/1.0\r\n\r\n", b"200"),
        (b"GET http://a/x HTTP/1.1\r\nHost: b\r\nConnection: close\r\n\r\n", b"200"),
        (b"OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", b"200"),
        (b"GET /" + b"x" * 40000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", b""),
    ],
)
def test_odd_bytes_have_defined_answers(ghost, request_bytes, status):
    answer = ghost.raw(request_bytes)
    assert answer.split(b" ")[1:2] == ([status] if status else [])


def test_a_full_workspace_fails_one_request(tea):
    long = wire.HeaderModifier(set=tuple(wire.Header(name=f"x-{n}", value="v" * 500) for n in range(30)))
    routes = [
        route("long", to(backend("tea"), matches=[prefix("/request")], filters=wire.Filters(request=long))),
        route("response", to(backend("tea"), matches=[prefix("/response")], filters=wire.Filters(response=long))),
        route("plain", to(backend("tea"))),
    ]
    # varnishd itself takes about 20k of each before the first byte of a request.
    small = {"workspace_backend": "28k", "workspace_client": "28k", "http_resp_hdr_len": "4k", "http_req_size": "8k"}
    with GhostHarness(Config(routes, {"tea": [tea]}), parameters=small) as ghost:
        child = ghost.child
        answers = [ghost.get("/./" + "x" * length) for length in range(0, 7500, 100)]
        assert {one.status for one in answers} <= {200, 500, 502, 503}
        assert "recv(): out of workspace" in ghost.log
        assert ghost.get("/request").status == 503
        assert ghost.get("/response").status in {500, 503}
        assert ghost.get("/plain").status == 200
        assert ghost.child == child


def test_too_many_headers_fail_one_request(tea):
    many = wire.HeaderModifier(add=tuple(wire.Header(name=f"x-{n}", value="v") for n in range(60)))
    rule = to(backend("tea"), matches=[prefix("/many")], filters=wire.Filters(request=many))
    with GhostHarness(Config([route("many", rule), route("plain", to(backend("tea")))], {"tea": [tea]})) as ghost:
        assert ghost.get("/many").status == 503
        assert "out of workspace or too many headers" in ghost.log
        assert ghost.get("/plain").status == 200


# -- panics ----------------------------------------------------------------------------


@pytest.mark.skipif(not PANICKING.exists(), reason="needs a build with the feature test-panic")
@pytest.mark.parametrize(
    ("entry", "statuses"),
    [
        ("recv", {500, 503}),
        ("changed", {500, 503}),
        ("websocket", {500, 503}),
        ("admin", {500, 503}),
        ("rule", {500, 503}),
        ("fetch", {503}),
        ("response", {503}),
        ("deliver", {500, 503}),
        ("gethdrs", {503}),
        ("finish", {200}),
        ("healthy", {200}),
        ("task", {200}),
        ("destroy", {200}),
    ],
)
def test_a_panic_is_one_failed_request(tea, entry, statuses):
    config = Config([route("any", to(backend("tea")))], {"tea": [tea]})
    with GhostHarness(config, vmod=PANICKING, environment={"GHOST_TEST_PANIC": entry}) as ghost:
        child = ghost.child
        assert {ghost.get().status for _ in range(3)} <= statuses
        assert ghost.child == child
        assert "Panic" not in ghost.output


@pytest.mark.skipif(not PANICKING.exists(), reason="needs a build with the feature test-panic")
@pytest.mark.parametrize("entry", ["answer", "pull", "finish-answer"])
def test_a_panic_in_an_answer_is_one_failed_request(entry):
    with GhostHarness(Config(), vmod=PANICKING, environment={"GHOST_TEST_PANIC": entry}) as ghost:
        child = ghost.child
        raw = ghost.raw(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert re.match(rb"HTTP/1.1 (404|503) ", raw)
        assert ghost.child == child


@pytest.mark.skipif(not PANICKING.exists(), reason="needs a build with the feature test-panic")
def test_a_panic_while_a_body_is_watched_is_one_failed_request(tea):
    rule = to(backend("tea"), timeouts=wire.Timeouts(request=60_000))
    with GhostHarness(
        Config([route("any", rule)], {"tea": [tea]}), vmod=PANICKING, environment={"GHOST_TEST_PANIC": "in-time"}
    ) as ghost:
        child = ghost.child
        raw = ghost.raw(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert raw == b"" or b"target" not in raw
        assert ghost.child == child
        assert "Panic" not in ghost.output


@pytest.mark.skipif(not PANICKING.exists(), reason="needs a build with the feature test-panic")
@pytest.mark.parametrize(("entry", "status"), [("finish", 200), ("gethdrs-late", 503)])
def test_an_endpoint_may_go_after_a_panic(tea, coffee, entry, status):
    """A connection that was never finished would bring the child down with its endpoint."""
    routes = [route("any", to(backend("tea")))]
    with GhostHarness(Config(routes, {"tea": [tea]}), vmod=PANICKING, environment={"GHOST_TEST_PANIC": entry}) as ghost:
        child = ghost.child
        assert [ghost.get().status for _ in range(3)] == [status] * 3
        ghost.reload(Config(routes, {"tea": [coffee]}))
        until(lambda: f":{tea.port}" not in ghost.admin("backend.list", "-p"), "the endpoint is gone")
        assert ghost.get().status == status
        assert ghost.child == child
        assert "Panic" not in ghost.output
