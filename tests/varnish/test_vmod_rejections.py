"""What a rejection by an exhausted share does to the rest: other requests of the client, varnishd itself."""

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator

from support.http.origins import Origin
from support.http.scripted_origin import ScriptedOrigin, answer, silence
from support.varnish.ghost import CACHE_EVERYTHING, GhostHarness
from support.varnish.overload import SLOW_REQUEST, AnyOrigin, Crowd, assert_undisturbed, serving, slow_and_fast
from support.waiting import until
from varnish_gateway.ir import wire

FEW = wire.WorkerShares(route=5)
"""Two requests for a route."""
LARGE = 8_000_000
"""More than the buffers between varnishd and a client that doesn't read."""
TO_ANOTHER_ROUTE = """
    sub vcl_recv { if (req.restarts > 0) { set req.url = "/fast/large"; } }
    sub vcl_deliver { if (req.url == "/slow" && resp.status == 503 && req.restarts == 0) { return (restart); } }
"""
INCLUDES_SLOW = (
    CACHE_EVERYTHING + 'sub vcl_backend_response { if (bereq.url == "/fast/page") { set beresp.do_esi = true; } }'
)


def get(path: str, *headers: str) -> bytes:
    lines = [f"GET {path} HTTP/1.1", "Host: a", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


def send_large(connection: socket.socket, stop: threading.Event) -> bool:
    connection.settimeout(20)
    return answer(200, b"x" * LARGE)(connection, stop)


@contextlib.contextmanager
def exhausted(fast: AnyOrigin, vcl: str, *first: bytes, **parameters: str) -> Iterator[GhostHarness]:
    """Serve a route whose share is exhausted, after these bodies were fetched for it."""
    kept = [answer(200, body, headers=["Cache-Control: max-age=600"]) for body in first]
    with (
        ScriptedOrigin(*kept, silence) as slow,
        serving(slow_and_fast(slow, fast, FEW), vcl, **parameters) as ghost,
    ):
        for number in range(len(first)):
            assert ghost.raw(get(f"/slow/{number}")).startswith(b"HTTP/1.1 200 ")
        with Crowd(ghost.ports["http-80"], b"", count=10) as crowd:
            for number, connection in enumerate(crowd.connections):
                connection.sendall(SLOW_REQUEST.replace(b"/slow", b"/slow/held/%d" % number))
            crowd.answered(503, 8)
            yield ghost


@contextlib.contextmanager
def slow_reader(ghost: GhostHarness) -> Iterator[socket.socket]:
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(20)
        connection.connect(("127.0.0.1", ghost.ports["http-80"]))
        yield connection


def read_late(connection: socket.socket) -> bytes:
    """Read a response and whatever follows, but not for longer than ghost gives a rejected client."""
    began = time.monotonic()
    until(lambda: time.monotonic() - began > 2.5, "the client is slow")
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while len(received.partition(b"\r\n\r\n")[2]) < LARGE and (piece := connection.recv(1 << 20)):
            received += piece
    return received.partition(b"\r\n\r\n")[2]


def test_a_rejected_request_that_vcl_restarts_on_another_route_is_answered_whole():
    with (
        ScriptedOrigin(send_large) as fast,
        exhausted(fast, TO_ANOTHER_ROUTE) as ghost,
        slow_reader(ghost) as connection,
    ):
        connection.sendall(SLOW_REQUEST)
        assert len(read_late(connection)) == LARGE


def test_a_rejected_include_does_not_shorten_later_responses_of_its_client():
    page = answer(200, b'<esi:include src="/slow/included"/>', headers=["Content-Type: text/html"])
    with (
        ScriptedOrigin(page, send_large) as fast,
        exhausted(fast, INCLUDES_SLOW) as ghost,
        slow_reader(ghost) as connection,
    ):
        connection.sendall(b"GET /fast/page HTTP/1.1\r\nHost: a\r\n\r\n")
        received = b""
        while not received.endswith(b"\r\n0\r\n\r\n"):
            received += connection.recv(65536)
        assert b"overloaded" in received
        connection.sendall(b"GET /fast/large HTTP/1.1\r\nHost: a\r\n\r\n")
        assert len(read_late(connection)) == LARGE


def test_a_rejected_hit_in_a_full_workspace_fails_alone():
    """The child of varnishd would panic if ghost asked for a synthetic response where its reason doesn't fit."""
    small = {"workspace_client": "40k", "http_req_size": "32k", "http_req_hdr_len": "32k"}
    with Origin() as fast, exhausted(fast, CACHE_EVERYTHING, b"kept", **small) as ghost:
        fillings = ("X-Fill: " + "x" * length for length in range(19_000, 20_400, 16))
        statuses = {ghost.raw(get("/slow/0", filling))[9:12] for filling in fillings}
        assert {b"503", b"500"} <= statuses, "no request filled the workspace"


def test_a_burst_of_requests_beyond_their_share_leaves_threads_for_rejections():
    """A container that has used up its CPU time for a moment, and then finds them all at once."""
    with (
        Origin() as fast,
        ScriptedOrigin(silence) as slow,
        serving(slow_and_fast(slow, fast)) as ghost,
        Crowd(ghost.ports["http-80"], b"", count=100) as crowd,
    ):
        os.kill(ghost.child, signal.SIGSTOP)
        try:
            for connection in crowd.connections:
                connection.sendall(SLOW_REQUEST)
        finally:
            os.kill(ghost.child, signal.SIGCONT)
        crowd.answered(503, 100 - 34)
        assert_undisturbed(ghost)
