"""Bad input and faults: defined answers, one request at most, the child lives."""

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.directories import open_directory
from support.http.websocket import HANDSHAKE
from support.varnish.ghost import CACHE_EVERYTHING, ROOT, Config, GhostHarness, VarnishError, backend, prefix, route, to
from support.waiting import until
from varnish_gateway.emit.vcl import main_vcl
from varnish_gateway.ir import UserVcl, wire

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


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [("/", [("X-Kind", "a" * 30_000)], 431), ("/?kind=" + "a" * 30_000, [], 414)],
    ids=["header", "query"],
)
def test_value_that_regexes_take_too_many_steps_for_is_an_error_and_counted(tea, path, headers, status):
    patterns = [f".*b{n}" for n in range(127)]
    matches = [
        *(wire.Match(headers=(wire.ValueMatch(name="x-kind", value=each, type="regex"),)) for each in patterns),
        *(wire.Match(query=(wire.ValueMatch(name="kind", value=each, type="regex"),)) for each in patterns),
    ]
    routes = [route("regexes", to(backend("tea"), matches=matches)), route("plain", to(backend("tea")))]
    with GhostHarness(Config(routes, {"tea": [tea]}), parameters={"http_req_hdr_len": "32k"}) as ghost:
        answer = ghost.get(path, headers=headers)
        assert answer.status == status
        assert b"take more than" in answer.body
        assert ghost.counters()["overBudget"] == 1
        assert ghost.get("/", headers=[("X-Kind", "a" * 1000)]).status == 200
        assert ghost.counters()["overBudget"] == 1


# -- panics ----------------------------------------------------------------------------

needs_panicking = pytest.mark.skipif(not PANICKING.exists(), reason="needs a build with the feature test-panic")


@contextlib.contextmanager
def panicking_in(entry: str, config: Config) -> Iterator[GhostHarness]:
    """Run varnishd with a ghost that panics in this entry point; it did so, and the child survived.

    It starts before ghost panics: without a VCL there would be no child.
    """
    with open_directory() as directory:
        armed = directory / "armed"
        environment = {"GHOST_TEST_PANIC": entry, "GHOST_TEST_PANIC_FILE": str(armed)}
        with GhostHarness(config, vmod=PANICKING, environment=environment) as ghost:
            child = ghost.child
            armed.touch()
            yield ghost
            _check_panic(ghost, entry, child)


def _check_panic(ghost: GhostHarness, entry: str, child: int) -> None:
    until(lambda: f"the test makes {entry} panic" in ghost.output, "varnishd's log has the panic")
    assert ghost.child == child
    assert "Panic" not in ghost.output


@needs_panicking
@pytest.mark.parametrize("entry", ["recv", "changed", "websocket", "admin", "rule", "fetch", "response", "deliver"])
def test_panic_in_vcl_function_fails_one_request(tea, entry):
    config = Config([route("any", to(backend("tea")))], {"tea": [tea]})
    with panicking_in(entry, config) as ghost:
        ghost.load_vcl(CACHE_EVERYTHING if entry == "rule" else "")
        assert {ghost.get().status for _ in range(3)} <= {500, 503}
        assert f"ghost: {entry}: panic: the test makes {entry} panic" in ghost.log


@needs_panicking
@pytest.mark.parametrize(("entry", "status"), [("gethdrs", 503), ("finish", 200), ("healthy", 200), ("task", 200)])
def test_panic_in_callback_fails_one_request_at_most(tea, entry, status):
    config = Config([route("any", to(backend("tea")))], {"tea": [tea]})
    with panicking_in(entry, config) as ghost:
        assert [ghost.get().status for _ in range(3)] == [status] * 3
        ghost.admin("backend.list")


@needs_panicking
@pytest.mark.parametrize("entry", ["init", "event"])
def test_panic_while_vcl_is_loaded_rejects_the_vcl(tea, entry):
    with panicking_in(entry, Config([route("any", to(backend("tea")))], {"tea": [tea]})) as ghost:
        with pytest.raises(VarnishError):
            ghost.load_vcl()
        assert ghost.get().status == 200  # the VCL before it


@needs_panicking
def test_panic_while_vcl_is_discarded_fails_no_request(tea):
    with panicking_in("fini", Config([route("any", to(backend("tea")))], {"tea": [tea]})) as ghost:
        ghost.load_vcl()
        ghost.admin("vcl.discard", "vcl1")
        assert ghost.get().status == 200


@needs_panicking
def test_panic_in_a_list_of_directors_fails_no_request(tea):
    with panicking_in("list", Config([route("any", to(backend("tea")))], {"tea": [tea]})) as ghost:
        ghost.admin("backend.list")
        assert ghost.get().status == 200


@needs_panicking
def test_panic_while_a_director_is_resolved_fails_one_request(tea):
    with panicking_in("resolve", Config([route("any", to(backend("tea")))], {"tea": [tea]})) as ghost:
        ghost.load_vcl("sub vcl_recv { set req.http.Resolved = req.backend_hint.resolve(); }")
        assert ghost.get().status == 503


@needs_panicking
def test_panic_in_an_address_fails_one_request(tea):
    with panicking_in("getip", Config([route("any", to(backend("tea")))], {"tea": [tea]})) as ghost:
        text = "sub vcl_backend_response { set beresp.http.Address = beresp.backend.ip; }"
        ghost.load_vcl(whole=main_vcl(UserVcl(source="the test", text=text)).replace("vcl 4.1;", "vcl 4.0;"))
        assert ghost.get().status == 503


@needs_panicking
@pytest.mark.parametrize(("entry", "routed"), [("http1pipe", True), ("pipe-answer", False)])
def test_panic_in_a_pipe_closes_its_connection(tea, entry, routed):
    routes = [route("any", to(backend("tea")))] if routed else []
    with panicking_in(entry, Config(routes, {"tea": [tea]})) as ghost:
        ghost.load_vcl("sub vcl_recv { return (pipe); }")
        assert re.match(rb"(HTTP/1.1 50[0-9] |$)", ghost.raw(HANDSHAKE))


@needs_panicking
def test_panic_while_director_is_destroyed_fails_no_request(tea):
    with panicking_in("destroy", Config([route("any", to(backend("tea")))], {"tea": [tea]})) as ghost:
        assert ghost.get().status == 200
        ghost.reload(Config())
        assert ghost.get().status == 404


@needs_panicking
@pytest.mark.parametrize("entry", ["answer", "pull", "finish-answer"])
def test_panic_in_synthetic_response_fails_one_request_at_most(entry):
    with panicking_in(entry, Config()) as ghost:
        raw = ghost.raw(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert re.match(rb"HTTP/1.1 (404|503) ", raw)


@needs_panicking
def test_panic_while_body_has_a_deadline_fails_one_request(tea):
    rule = to(backend("tea"), timeouts=wire.Timeouts(request=60_000))
    with panicking_in("in-time", Config([route("any", rule)], {"tea": [tea]})) as ghost:
        raw = ghost.raw(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert raw == b"" or b"target" not in raw


@needs_panicking
def test_panic_while_a_request_body_is_sent_fails_one_request(tea):
    rule = to(backend("tea"), timeouts=wire.Timeouts(request=60_000))
    with panicking_in("upload", Config([route("any", rule)], {"tea": [tea]})) as ghost:
        request = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc"
        assert re.match(rb"(HTTP/1.1 50[0-9] |$)", ghost.raw(request))


@needs_panicking
@pytest.mark.parametrize(("entry", "status"), [("finish", 200), ("gethdrs-late", 503)])
def test_endpoint_can_be_removed_after_a_panic(tea, coffee, entry, status):
    """An unfinished connection would take the child down with its endpoint."""
    routes = [route("any", to(backend("tea")))]
    with panicking_in(entry, Config(routes, {"tea": [tea]})) as ghost:
        assert [ghost.get().status for _ in range(3)] == [status] * 3
        ghost.reload(Config(routes, {"tea": [coffee]}))
        until(lambda: f":{tea.port}" not in ghost.admin("backend.list", "-p"), "varnishd removed the endpoint")
        assert ghost.get().status == status
