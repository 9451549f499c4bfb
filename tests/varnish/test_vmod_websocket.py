"""WebSockets: a 101 opens a tunnel to the backend of the rule; anything else is an ordinary response."""

import asyncio
import contextlib
import itertools
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.http.client import Request, over_http2, proxied
from support.http.scripted_origin import ScriptedOrigin, answer, late
from support.http.websocket import ACCEPTED, HANDSHAKE, echo
from support.varnish.ghost import Config, GhostHarness, backend, prefix, refusing_endpoint, route, to
from support.waiting import until
from varnish_gateway.ir import wire


@pytest.fixture(scope="module")
def ghost() -> Iterator[GhostHarness]:
    with GhostHarness(Config(), sockets=("http-80", "https-443,PROXY")) as running:
        child = running.child
        yield running
        assert running.child == child


PIPE = "sub vcl_recv { return (pipe); }"

LISTENERS = (
    wire.Listener(name="http", socket="http-80", port=80),
    wire.Listener(name="https", socket="https-443", port=443, scheme="https"),
)


@pytest.fixture
def serve(ghost) -> Callable[..., GhostHarness]:
    def reload(*endpoints: ScriptedOrigin | wire.Endpoint, **rule) -> GhostHarness:
        members = [one.endpoint if isinstance(one, ScriptedOrigin) else one for one in endpoints]
        routes = [route("r", to(backend("pool"), **rule), listeners=("http", "https"))]
        assert ghost.reload(Config(routes, {"pool": members}, LISTENERS)).status == 200
        return ghost

    return reload


@contextlib.contextmanager
def connected(
    ghost: GhostHarness, handshake: bytes = HANDSHAKE, *, name: str = "http-80"
) -> Iterator[tuple[socket.socket, bytes]]:
    """Give a connection and the head of the answer."""
    with socket.create_connection(("127.0.0.1", ghost.ports[name]), timeout=10) as connection:
        connection.sendall(handshake)
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            piece = connection.recv(1)
            if not piece:
                break
            head += piece
        yield connection, head


def test_bytes_go_both_ways(serve):
    with ScriptedOrigin(echo) as origin, connected(serve(origin)) as (connection, head):
        assert head.startswith(b"HTTP/1.1 101 ")
        for message in (b"\x81\x05hello", b"\x82\x03\x00\xff\x01", b"x" * 100_000):
            connection.sendall(message)
            received = b""
            while len(received) < len(message):
                received += connection.recv(65536)
            assert received == message


def test_behind_a_tls_terminator_too(serve):
    with (
        ScriptedOrigin(echo) as origin,
        connected(serve(origin), proxied(None) + HANDSHAKE, name="https-443") as (one, head),
    ):
        assert head.startswith(b"HTTP/1.1 101 ")
        one.sendall(b"hello")
        assert one.recv(10) == b"hello"
    assert b"X-Forwarded-Proto: https\r\n" in origin.requests[0]
    assert b"X-Forwarded-For: 192.0.2.7\r\n" in origin.requests[0]


def test_backend_receives_the_filtered_upgrade_request(serve):
    filters = wire.Filters(
        request=wire.HeaderModifier(set=(wire.Header(name="X-Mine", value="2"),)),
        rewrite=wire.Rewrite(path=wire.PathModifier(type="prefix", value="/rooms"), hostname="inner.org"),
    )
    with ScriptedOrigin(echo) as origin, connected(serve(origin, filters=filters, matches=[prefix("/chat")])):
        pass
    head = origin.requests[0].split(b"\r\n")
    assert head[0] == b"GET /rooms HTTP/1.1"
    values = {line.partition(b": ")[0].lower(): line.partition(b": ")[2] for line in head[1:] if line}
    assert values[b"host"] == b"inner.org"
    assert values[b"x-mine"] == b"2"
    assert (values[b"upgrade"], values[b"connection"]) == (b"websocket", b"Upgrade")
    assert values[b"sec-websocket-key"] == b"dGhlIHNhbXBsZSBub25jZQ=="
    assert (values[b"x-forwarded-for"], values[b"x-forwarded-proto"]) == (b"127.0.0.1", b"http")
    assert values[b"x-gateway-route"] == b"default/r"


def test_an_endpoint_that_refuses_is_passed_over(serve):
    with ScriptedOrigin(echo) as origin:
        ghost = serve(origin, refusing_endpoint(), refusing_endpoint())
        for _ in range(8):
            with connected(ghost) as (_, head):
                assert head.startswith(b"HTTP/1.1 101 ")


SMUGGLED = b"GET /secret HTTP/1.1\r\nHost: elsewhere.org\r\n\r\n"
MARKED = "sub vcl_deliver { set resp.http.X-Delivered = resp.status; unset resp.http.X-Internal; return (deliver); }"


def test_an_answer_other_than_101_passes_vcl_deliver_and_ends_the_upgrade(serve):
    """Whatever the client sends next is a request of its own, which ghost routes."""
    with ScriptedOrigin(answer(403, b"no", headers=["X-Internal: secret", "Upgrade: websocket"])) as origin:
        ghost = serve(origin, filters=None)
        ghost.load_vcl(MARKED)
        with connected(ghost, HANDSHAKE + SMUGGLED.replace(b"GET", b"BREW")) as (_, head):
            assert head.startswith(b"HTTP/1.1 403 ")
            assert b"X-Delivered: 403\r\n" in head
            assert b"secret" not in head
        until(lambda: len(origin.requests) == 2, "the second request is routed")
        ghost.load_vcl()
    assert b"X-Gateway-Route: default/r\r\n" in origin.requests[1]
    assert counts(ghost)["status"]["4xx"] == 2


def test_user_vcl_with_a_vcl_deliver_keeps_its_websockets(serve):
    with ScriptedOrigin(echo) as origin:
        ghost = serve(origin)
        ghost.load_vcl(MARKED)
        with connected(ghost) as (connection, head):
            assert head.startswith(b"HTTP/1.1 101 ")
            connection.sendall(b"hello")
            assert connection.recv(10) == b"hello"
        ghost.load_vcl()


def counts(ghost: GhostHarness) -> Any:
    return ghost.counters()["routes"]["default/r"]


def endpoint_counter(ghost: GhostHarness, endpoint: wire.Endpoint, name: str) -> int:
    call = ["varnishstat", "-1", "-n", str(ghost.directory / "varnish"), "-f", f"*{endpoint.port}.{name}"]
    words = subprocess.run(call, capture_output=True, text=True, check=True).stdout.split()
    return int(words[1])


def test_route_and_endpoint_count_a_websocket_and_its_bytes(serve):
    with ScriptedOrigin(echo) as origin:
        ghost = serve(origin)
        before = counts(ghost)["status"]["1xx"]
        with connected(ghost) as (connection, _):
            connection.sendall(b"x" * 1000)
            received = b""
            while len(received) < 1000:
                received += connection.recv(4096)
            assert counts(ghost)["status"]["1xx"] == before + 1
        until(lambda: endpoint_counter(ghost, origin.endpoint, "pipe_out") == 1000, "the endpoint is charged")
        assert endpoint_counter(ghost, origin.endpoint, "pipe_in") == 1000
        assert endpoint_counter(ghost, origin.endpoint, "req") == 1


@pytest.mark.parametrize("vcl", ["", PIPE])
def test_refusing_endpoints_are_a_503_that_is_counted(serve, vcl):
    ghost = serve(refusing_endpoint(), refusing_endpoint())
    ghost.load_vcl(vcl)
    before = counts(ghost)["status"]
    raw = ghost.raw(HANDSHAKE.replace(b"X-Mine: 1", b"Connection: close"))
    assert raw.startswith(b"HTTP/1.1 503 ")
    after = counts(ghost)["status"]
    assert (after["5xx"] - before["5xx"], after["1xx"] - before["1xx"]) == (1, 0)
    ghost.load_vcl()


def test_a_websocket_beyond_pipe_sess_max_is_a_503_that_is_counted(serve):
    with ScriptedOrigin(echo) as origin:
        ghost = serve(origin)
        ghost.admin("param.set", "pipe_sess_max", "1")
        before = counts(ghost)["status"]
        with connected(ghost) as (_, first), connected(ghost) as (_, second):
            assert first.startswith(b"HTTP/1.1 101 ")
            assert second.startswith(b"HTTP/1.1 503 ")
            after = counts(ghost)["status"]
        ghost.admin("param.reset", "pipe_sess_max")
    assert (after["5xx"] - before["5xx"], after["1xx"] - before["1xx"]) == (1, 1)


def test_a_silent_websocket_ends_after_pipe_timeout(serve):
    with ScriptedOrigin(echo) as origin:
        ghost = serve(origin)
        ghost.admin("param.set", "pipe_timeout", "1")
        with connected(ghost) as (connection, head):
            assert head.startswith(b"HTTP/1.1 101 ")
            assert connection.recv(10) == b""
        ghost.admin("param.reset", "pipe_timeout")


def sends_until_it_fails(connection: socket.socket) -> int:
    """Return how often there was room for more; a timeout is for the test to report."""
    for count in itertools.count():
        try:
            connection.sendall(b"x" * 65536)
        except ConnectionError:
            return count
    raise AssertionError


def test_an_endpoint_that_reads_nothing_ends_after_pipe_timeout(serve):
    def deaf(connection: socket.socket, stop: threading.Event) -> bool:
        connection.sendall(ACCEPTED)
        return not stop.wait()

    with ScriptedOrigin(deaf) as origin:
        ghost = serve(origin)
        ghost.admin("param.set", "pipe_timeout", "1")
        with connected(ghost) as (connection, head):
            assert head.startswith(b"HTTP/1.1 101 ")
            assert sends_until_it_fails(connection) > 0
        ghost.admin("param.reset", "pipe_timeout")


@pytest.mark.parametrize(
    ("vcl", "status"),
    [
        ('sub vcl_backend_response { if (beresp.status == 101) { return (error(403, "No")); } }', b"403"),
        ("sub vcl_backend_response { if (beresp.status == 101) { return (abandon); } }", b"503"),
    ],
    ids=["error", "abandon"],
)
def test_vcl_that_rejects_the_101_opens_no_tunnel(serve, vcl, status):
    received, closed = [], threading.Event()

    def record(connection: socket.socket, _: threading.Event) -> bool:
        connection.sendall(ACCEPTED)
        connection.settimeout(10)
        received.append(connection.recv(100))
        closed.set()
        return False

    with ScriptedOrigin(record) as origin:
        ghost = serve(origin)
        ghost.load_vcl(vcl)
        raw = ghost.raw(HANDSHAKE.replace(b"keep-alive, Upgrade", b"close, Upgrade") + b"not for the origin")
        ghost.load_vcl()
        assert raw.startswith(b"HTTP/1.1 " + status)
        assert closed.wait(5)
        assert received == [b""]


def test_bytes_that_follow_the_101_at_once_are_not_lost(serve):
    def eager(connection: socket.socket, stop: threading.Event) -> bool:
        connection.sendall(ACCEPTED + b"first")
        return not stop.wait()

    with ScriptedOrigin(eager) as origin, connected(serve(origin)) as (connection, head):
        assert head.startswith(b"HTTP/1.1 101 ")
        assert b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in head
        assert connection.recv(10) == b"first"


def test_a_rule_with_a_deadline_limits_the_handshake_only(serve):
    with ScriptedOrigin(late(30, echo)) as origin:
        ghost = serve(origin, timeouts=wire.Timeouts(request=300))
        assert ghost.raw(HANDSHAKE.replace(b"X-Mine: 1", b"Connection: close")).startswith(b"HTTP/1.1 504 ")
    with ScriptedOrigin(echo) as origin, connected(serve(origin, timeouts=wire.Timeouts(request=300))) as (one, head):
        assert head.startswith(b"HTTP/1.1 101 ")
        one.settimeout(0.6)
        with pytest.raises(TimeoutError):
            one.recv(1)
        one.settimeout(10)
        one.sendall(b"hello")
        assert one.recv(10) == b"hello"


# -- pipes that user VCL asks for ------------------------------------------------------------


def test_a_pipe_of_user_vcl_opens_a_websocket(serve):
    with ScriptedOrigin(echo) as origin:
        ghost = serve(origin, refusing_endpoint(), refusing_endpoint())
        ghost.load_vcl(PIPE)
        for _ in range(8):
            with connected(ghost) as (connection, head):
                assert head.startswith(b"HTTP/1.1 101 ")
                connection.sendall(b"hello")
                assert connection.recv(10) == b"hello"
        ghost.load_vcl()
    assert b"Upgrade: websocket\r\n" in origin.requests[0]


def test_a_pipe_whose_endpoint_does_not_upgrade_is_a_502(serve):
    """The response could not pass vcl_deliver."""
    with ScriptedOrigin(answer(200, b"internal")) as origin:
        ghost = serve(origin)
        ghost.load_vcl(PIPE)
        raw = ghost.raw(HANDSHAKE)
        ghost.load_vcl()
    assert raw.startswith(b"HTTP/1.1 502 ")
    assert b"did not upgrade" in raw
    assert b"internal" not in raw


@pytest.mark.parametrize("filters", [None, wire.Filters(response=wire.HeaderModifier(remove=("X-Internal",)))])
def test_a_request_that_is_no_websocket_is_not_piped(serve, filters):
    with ScriptedOrigin(answer(200, b"internal")) as origin:
        ghost = serve(origin, filters=filters)
        ghost.load_vcl(PIPE)
        raw = ghost.raw(HANDSHAKE.replace(b"GET", b"BREW") if filters is None else HANDSHAKE)
        ghost.load_vcl()
    assert raw.startswith(b"HTTP/1.1 501 ")
    assert not origin.requests


HIDDEN = wire.Filters(response=wire.HeaderModifier(remove=("X-Internal",)))


@pytest.mark.parametrize(
    "rule",
    [
        to(backend("pool"), filters=HIDDEN),
        to(backend("pool", filters=HIDDEN)),
        to(backend("nobody", weight=0), backend("pool", filters=HIDDEN), cors=wire.Cors(origins=("*",))),
    ],
)
def test_response_filters_can_not_be_switched_off(ghost, rule):
    """Nobody sees the answer in a pipe: where it has to be changed the request is an ordinary one."""
    with ScriptedOrigin(answer(200, b"x", headers=["X-Internal: secret"])) as origin:
        assert ghost.reload(Config([route("r", rule)], {"pool": [origin.endpoint]})).status == 200
        with connected(ghost) as (_, head):
            assert head.startswith(b"HTTP/1.1 200 ")
            assert b"secret" not in head
    assert b"upgrade" not in origin.requests[0].lower()


def test_cors_is_no_hindrance(serve):
    """Browsers need only the backend's permission for a WebSocket."""
    with ScriptedOrigin(echo) as origin:
        ghost = serve(origin, cors=wire.Cors(origins=("https://a.org",)))
        with connected(ghost, HANDSHAKE.replace(b"X-Mine: 1", b"Origin: https://b.org")) as (_, head):
            assert head.startswith(b"HTTP/1.1 101 ")
    assert b"Origin: https://b.org\r\n" in origin.requests[0]


@pytest.mark.parametrize(
    ("what", "instead"),
    [
        (b"Upgrade: WebSocket", b"Upgrade: websocket, h2c"),
        (b"Upgrade: WebSocket", b"Upgrade: websocket\r\nUpgrade: h2c"),
        (b"Upgrade: WebSocket", b"Upgrade: TLS/1.0"),
        (b"keep-alive, Upgrade", b"keep-alive"),
        (b"GET /", b"POST /"),
        (b"HTTP/1.1", b"HTTP/1.0"),
        (b"Sec-WebSocket-Key", b"X-Key"),
        (b"Sec-WebSocket-Version", b"X-Version"),
        (b"X-Mine: 1", b"Content-Length: 1"),
    ],
)
def test_nothing_else_is_piped(serve, what, instead):
    with ScriptedOrigin(answer()) as origin:
        raw = serve(origin).raw(HANDSHAKE.replace(what, instead).replace(b"keep-alive", b"close") + b"x")
    assert raw.startswith(b"HTTP/1.1 200 ")
    (head,) = origin.requests
    assert b"upgrade" not in head.lower().replace(b"x-upgrade", b"")


def test_h2c_ends_at_varnishd(serve):
    """With its settings it is taken, by varnishd itself: every request that follows is routed."""
    upgrade = b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA"
    with (
        ScriptedOrigin(answer()) as origin,
        connected(serve(origin), HANDSHAKE.replace(b"Upgrade: WebSocket", upgrade)),
    ):
        pass
    assert not any(b"upgrade" in head.lower() for head in origin.requests)


def test_over_http2_it_is_an_ordinary_request(serve):
    with ScriptedOrigin(answer(426, b"")) as origin:
        ghost = serve(origin)
        request = Request(method="GET", target="/chat", host="a", headers=(("upgrade", "websocket"),))
        (answered,) = asyncio.run(over_http2(ghost.ports["http-80"], [request]))
    assert answered.status in {0, 400, 426}


def test_user_vcl_has_its_say_first(serve):
    with ScriptedOrigin(echo) as origin:
        ghost = serve(origin)
        ghost.load_vcl('sub vcl_recv { if (req.http.X-Mine) { return (synth(403, "No")); } }')
        with connected(ghost) as (_, head):
            assert head.startswith(b"HTTP/1.1 403 ")
        with connected(ghost, HANDSHAKE.replace(b"X-Mine", b"X-Other")) as (_, head):
            assert head.startswith(b"HTTP/1.1 101 ")
        ghost.load_vcl()


@pytest.mark.parametrize(
    ("rule", "status"),
    [
        (wire.Rule(redirect=wire.Redirect(hostname="a.org")), b"302"),
        (wire.Rule(status=500), b"500"),
        (to(backend("nobody")), b"503"),
    ],
)
def test_without_a_backend_there_is_an_answer(ghost, rule, status):
    ghost.reload(Config([route("r", rule)], {}))
    with connected(ghost) as (_, head):
        assert head.split(b" ")[1] == status
