"""WebSockets: piped to the backend of their rule, and nothing else is."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from support.http.client import Request, over_http2, proxied
from support.http.scripted_origin import ScriptedOrigin, answer
from support.http.websocket import HANDSHAKE, echo
from support.varnish.ghost import Config, GhostHarness, backend, prefix, refusing_endpoint, route, to
from varnish_gateway.ir import wire


@pytest.fixture(scope="module")
def ghost() -> Iterator[GhostHarness]:
    with GhostHarness(Config(), sockets=("http-80", "https-443,PROXY")) as running:
        child = running.child
        yield running
        assert running.child == child


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
    assert (values[b"upgrade"], values[b"connection"]) == (b"websocket", b"Upgrade, close")
    assert values[b"sec-websocket-key"] == b"dGhlIHNhbXBsZSBub25jZQ=="
    assert (values[b"x-forwarded-for"], values[b"x-forwarded-proto"]) == (b"127.0.0.1", b"http")
    assert values[b"x-gateway-route"] == b"default/r"


def test_an_endpoint_that_refuses_is_passed_over(serve):
    with ScriptedOrigin(echo) as origin:
        ghost = serve(origin, refusing_endpoint(), refusing_endpoint())
        for _ in range(8):
            with connected(ghost) as (_, head):
                assert head.startswith(b"HTTP/1.1 101 ")


def test_a_backend_that_does_not_upgrade_is_asked_to_close(serve):
    """Or the client could send it further requests that were never routed."""

    def refuse(connection: socket.socket, stop: threading.Event) -> bool:
        return answer(400, b"no")(connection, stop) and b"close" not in origin.requests[-1].lower()

    with ScriptedOrigin(refuse) as origin:
        smuggled = b"GET /secret HTTP/1.1\r\nHost: example.com\r\n\r\n"
        with connected(serve(origin), HANDSHAKE) as (connection, head):
            assert head.startswith(b"HTTP/1.1 400 ")
            with contextlib.suppress(OSError):
                connection.sendall(smuggled)
            with contextlib.suppress(OSError):
                assert b"".join(iter(lambda: connection.recv(65536), b"")) in {b"no", b""}
    assert len(origin.requests) == 1


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
    ],
)
def test_nothing_else_is_piped(serve, what, instead):
    with ScriptedOrigin(answer()) as origin:
        raw = serve(origin).raw(HANDSHAKE.replace(what, instead).replace(b"keep-alive", b"close"))
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
