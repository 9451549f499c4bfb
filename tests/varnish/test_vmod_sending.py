"""Requests on their way to an endpoint: a deadline ends them, whatever varnishd waits for on the connection."""

import contextlib
import socket
import time
from collections.abc import Iterator

import pytest

from support.http.scripted_origin import ScriptedOrigin, answer, trickle
from support.varnish.ghost import Config, GhostHarness
from varnish_gateway.dataplane.varnish.parameters import ALWAYS
from varnish_gateway.ir import wire

SOON = 4.0
"""What a busy machine may make of half a second; varnishd itself would wait forever, or for a minute."""
RETRY = wire.Retry(codes=(503,))
"""Has varnishd keep a small body, so that it can be sent again."""
LIMITS = [wire.Timeouts(request=500), wire.Timeouts(backend_request=500)]


@pytest.fixture(scope="module")
def ghost() -> Iterator[GhostHarness]:
    """Run a varnishd as gateways do: with heads of 32 KB in up to 128 lines."""
    parameters = dict(word.split("=") for word in ALWAYS)
    with GhostHarness(Config(), parameters=parameters) as running:
        child = running.child
        yield running
        assert running.child == child


@contextlib.contextmanager
def cramped() -> Iterator[wire.Endpoint]:
    """Yield an endpoint that never reads, and has so little room that varnishd can't write 50 KB to it."""
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 88)
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield wire.Endpoint(address="127.0.0.1", port=server.getsockname()[1])


def post(length: int) -> bytes:
    return b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % length + b"x" * length


GET = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


def ask(ghost: GhostHarness, request: bytes) -> tuple[bytes, float]:
    """Return the response, and after which time it was complete."""
    began = time.monotonic()
    received = b""
    with socket.create_connection(("127.0.0.1", ghost.ports["http-80"]), timeout=20) as connection:
        connection.sendall(request)
        with contextlib.suppress(ConnectionError):
            while piece := connection.recv(65536):
                received += piece
    return received, time.monotonic() - began


LINES = tuple(wire.Header(f"b{number}", "y" * 900) for number in range(100))
LONGER = wire.Filters(request=wire.HeaderModifier(set=LINES))
"""Makes a head one of 90 KB."""
REQUESTS = {"bodiless": GET, "kept": post(60_000), "streamed": post(80_000)}


@pytest.mark.parametrize("timeouts", LIMITS)
@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_endpoint_without_room_for_a_head_is_a_504_in_time(serve, request_, timeouts):
    """A write of varnishd's waits; nothing but the end of the connection ends it."""
    with cramped() as slow:
        received, seconds = ask(serve(slow, timeouts=timeouts, retry=RETRY, filters=LONGER), request_)
    assert received.startswith(b"HTTP/1.1 504 ")
    assert 0.45 < seconds < SOON


@pytest.fixture
def hasty(ghost) -> Iterator[None]:
    """Have varnishd itself wait for 0.3 seconds only."""
    ghost.admin("param.set", "first_byte_timeout", "0.3")
    yield
    ghost.admin("param.reset", "first_byte_timeout")


@pytest.mark.parametrize("timeouts", LIMITS)
def test_endpoint_without_room_for_a_kept_body_is_a_504_in_time(serve, timeouts):
    with cramped() as slow:
        received, seconds = ask(serve(slow, timeouts=timeouts, retry=RETRY), REQUESTS["kept"])
    assert received.startswith(b"HTTP/1.1 504 ")
    assert 0.45 < seconds < SOON


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_rule_without_limits_does_not_wait_forever_for_room(serve, request_):
    with cramped() as slow:
        received, seconds = ask(serve(slow, retry=wire.Retry(codes=(503,), attempts=0), filters=LONGER), request_)
    assert received.startswith(b"HTTP/1.1 50")
    assert seconds < SOON


@pytest.mark.parametrize("timeouts", LIMITS)
@pytest.mark.parametrize("request_", [GET, post(10)], ids=["bodiless", "kept"])
def test_head_of_a_response_that_comes_byte_by_byte_is_a_504_in_time(serve, request_, timeouts):
    """Each byte comes in time; the deadline is for all of them."""
    head = [bytes([byte]) for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nA: 1234567890\r\n\r\n"]
    with ScriptedOrigin(trickle(head, 0.2)) as origin:
        received, seconds = ask(serve(origin, timeouts=timeouts, retry=wire.Retry(attempts=0)), request_)
    assert received.startswith(b"HTTP/1.1 504 ")
    assert 0.45 < seconds < SOON


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_large_request_in_time_arrives_unchanged_on_a_connection_used_before(serve, request_):
    with ScriptedOrigin(*[answer(200, b"y" * 10)] * 3) as origin:
        ghost = serve(origin, timeouts=wire.Timeouts(request=10_000), retry=RETRY, filters=LONGER)
        answers = [ask(ghost, request_)[0] for _ in range(3)]
    assert [received.endswith(b"\r\n\r\n" + b"y" * 10) for received in answers] == [True] * 3
    body = request_.partition(b"\r\n\r\n")[2]
    assert [sent.partition(b"\r\n\r\n")[2] for sent in origin.requests] == [body] * 3
    assert [sent.count(b"y" * 900) for sent in origin.requests] == [len(LINES)] * 3
