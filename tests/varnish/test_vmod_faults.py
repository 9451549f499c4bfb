"""Bad input and faults: defined answers, one request at most, the child lives."""

import contextlib
import re
from collections.abc import Iterator

import pytest

from support.directories import open_directory
from support.http.scripted_origin import ScriptedOrigin, answer, trickle
from support.http.websocket import HANDSHAKE
from support.varnish.caching import outcome, policy, reason
from support.varnish.ghost import (
    CACHE_EVERYTHING,
    PANICKING,
    Config,
    GhostHarness,
    VarnishError,
    backend,
    prefix,
    refusing_endpoint,
    route,
    to,
)
from support.varnish.invalidation import HOST, ask, index
from support.waiting import until
from varnish_gateway.emit.vcl import main_vcl
from varnish_gateway.ir import UserVcl, wire

UNFILTERED = 'sub vcl_backend_response { set beresp.filters = ""; }'


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


@pytest.mark.parametrize(
    ("frame", "rule", "vcl"),
    [
        ("Connection: keep-alive\r\n{}\r\n\r\n", {"cache": policy()}, ""),
        ("Transfer-Encoding: chunked\r\n{}\r\n\r\n4\r\ndone\r\n0\r\n\r\n", {"cache": policy()}, UNFILTERED),
        ("Content-Length: 4\r\n{}\r\n\r\ndone", {"timeouts": wire.Timeouts(request=60_000)}, UNFILTERED),
    ],
    ids=["no-body", "counted", "in-time"],
)
def test_response_that_leaves_almost_no_workspace_fails_alone(frame, rule, vcl):
    """Its headers have any length near that at which nothing is left for the steps of its body."""
    padding = 0

    def step(connection, _) -> bool:
        connection.sendall(b"HTTP/1.1 200 OK\r\n" + frame.format(f"X-Pad: {'v' * padding}").encode())
        return True

    with ScriptedOrigin(step) as origin:
        config = Config([route("any", to(backend("tea"), **rule))], {"tea": [origin.endpoint]})
        with GhostHarness(config, user_vcl=vcl, parameters={"workspace_backend": "28k"}) as ghost:
            child = ghost.child
            served, failed = 0, 8000
            while failed - served > 8:
                padding = (served + failed) // 2
                served, failed = (padding, failed) if ghost.get(f"/{padding}").status == 200 else (served, padding)
            for padding in range(served - 256, failed + 256, 8):
                assert ghost.get(f"/{padding}").status in {200, 502, 503}
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
        if entry == "rule":  # only the frame for pods of the previous version calls it
            ghost.load_vcl(whole=main_vcl(UserVcl(source="the test", text=CACHE_EVERYTHING), caching=False))
        assert {ghost.get().status for _ in range(3)} <= {500, 503}
        assert f"ghost: {entry}: panic: the test makes {entry} panic" in ghost.log


@needs_panicking
@pytest.mark.parametrize("entry", ["lookup", "hash", "keyed", "miss", "store", "decided"])
def test_panic_in_the_cache_fails_one_request(tea, entry):
    config = Config([route("any", to(backend("tea"), cache=policy()))], {"tea": [tea]})
    with panicking_in(entry, config) as ghost:
        assert {ghost.get(f"/{number}").status for number in range(3)} <= {500, 503}
        assert f"ghost: {entry}: panic: the test makes {entry} panic" in ghost.log


@needs_panicking
def test_panic_in_a_lookup_fails_no_request(tea):
    with panicking_in("candidate", Config([route("any", to(backend("tea"), cache=policy()))], {"tea": [tea]})) as ghost:
        assert [ghost.get("/candidate").status for _ in range(3)] == [200] * 3


@needs_panicking
def test_object_that_does_not_reach_the_index_is_not_kept(tea):
    with panicking_in("arrived", Config([route("any", to(backend("tea"), cache=policy()))], {"tea": [tea]})) as ghost:
        assert [outcome(ghost.get("/arrived")) for _ in range(3)] == ["uri-miss"] * 3


@needs_panicking
def test_object_that_does_not_leave_the_index_ends_the_use_of_the_index(tea):
    """Otherwise an invalidation could meet an object that varnishd has freed. What is stored is not used any more."""
    short, long = (to(backend("tea"), cache=policy(ttl=ttl, keep=0)) for ttl in (100, 60_000))
    routes = [route("short", short, hosts=["short.example"]), route("long", long, hosts=[HOST])]
    with panicking_in("expired", Config(routes, {"tea": [tea]})) as ghost:
        assert [outcome(ghost.get("/before", host=HOST)) for _ in range(2)] == ["uri-miss", "hit"]
        assert index(ghost)["broken"] == 0
        assert ghost.get("/expired", host="short.example").status == 200
        until(lambda: index(ghost)["broken"] == 1, "ghost has noticed")
        assert reason(ghost.get("/before", host=HOST)) == "uri-miss index-full"
        assert reason(ghost.get("/later", host=HOST)) == "uri-miss index-full"
        assert ask(ghost, b'{"targets": [{"everything": true}]}').status == 500


@needs_panicking
def test_panic_in_the_body_of_an_invalidation_fails_it(tea):
    with panicking_in("request-body", Config([route("any", to(backend("tea")))], {"tea": [tea]})) as ghost:
        assert ask(ghost, b"{}").status == 408


@needs_panicking
def test_panic_in_a_lookup_delivers_no_other_variant():
    variants = [answer(body=body, headers=["Vary: X-A"]) for body in (b"one", b"two", b"three")]
    with ScriptedOrigin(*variants) as origin:
        config = Config([route("any", to(backend("tea"), cache=policy()))], {"tea": [origin.endpoint]})
        with panicking_in("candidate", config) as ghost:
            bodies = [ghost.get("/variants", headers=[("X-A", name)]).body for name in ("one", "two", "one")]
            assert bodies == [b"one", b"two", b"three"]


@needs_panicking
@pytest.mark.parametrize("entry", ["stale", "revived"])
def test_panic_for_a_stale_object_fails_one_request(entry):
    config = Config([route("any", to(backend("tea"), cache=policy()))], {"tea": [refusing_endpoint()]})
    with panicking_in(entry, config) as ghost:
        ghost.load_vcl('sub vcl_recv { if (req.url == "/synth") { return (synth(503)); } }')
        path = "/stale" if entry == "stale" else "/synth"
        assert ghost.get(path).status in {500, 503}
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
def test_panic_while_body_is_counted_fails_one_request():
    chunked = trickle([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n0\r\n\r\n"], 0)
    with ScriptedOrigin(chunked) as origin:
        routes = [route("any", to(backend("tea"), cache=policy()))]
        with panicking_in("size", Config(routes, {"tea": [origin.endpoint]})) as ghost:
            raw = ghost.raw(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            assert not raw.endswith(b"0\r\n\r\n")


@needs_panicking
@pytest.mark.parametrize(("entry", "retry"), [("upload", None), ("kept-body", wire.Retry()), ("send", wire.Retry())])
def test_panic_while_a_request_body_is_read_fails_one_request(tea, entry, retry):
    rule = to(backend("tea"), timeouts=wire.Timeouts(request=60_000), retry=retry)
    with panicking_in(entry, Config([route("any", rule)], {"tea": [tea]})) as ghost:
        request = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc"
        assert re.match(rb"(HTTP/1.1 (50[0-9]|408) |$)", ghost.raw(request))


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
