"""A response that breaks off at the origin is incomplete for clients too.

A test decides how far a delivery has come when the fetch fails: user VCL waits in vcl_deliver for the test.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from support.http.client import Request, over_http2
from support.http.scripted_origin import ScriptedOrigin, Step, answer
from support.varnish.caching import policy
from support.varnish.ghost import GhostHarness
from support.waiting import until

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
BODIES = {"nothing": b"", "chunk": b"5\r\n01234\r\n", "part": b"a\r\n01234"}


class Gate:
    """Holds deliveries until it opens; each has a path of its own."""

    def __init__(self, ghost: GhostHarness) -> None:
        self.ghost = ghost
        self._server = socket.create_server(("127.0.0.1", 0))
        self._held: list[socket.socket] = []
        port = self._server.getsockname()[1]
        self.path = f"/{port}"
        sync = f'vtc.barrier_sync("127.0.0.1:{port}");'
        self.vcl = f'import vtc; sub vcl_deliver {{ if (req.http.Host == "a") {{ {sync} }} }}'

    def wait(self, count: int = 1) -> None:
        """Wait until so many deliveries are held."""
        self._server.settimeout(10)
        self._held += [self._server.accept()[0] for _ in range(count)]

    def open(self) -> None:
        for connection in [*self._held, self._server]:
            connection.close()


Ask = Callable[[Gate, threading.Event], bool]


@pytest.fixture
def gate(ghost) -> Iterator[Gate]:
    gate = Gate(ghost)
    ghost.load_vcl(gate.vcl)
    ghost.admin("ban", "req.url ~ .")
    yield gate
    gate.open()
    ghost.load_vcl()


def broken(event: threading.Event, body: bytes) -> Step:
    """Send the head and so much of the body; close when the event is set."""

    def step(connection: socket.socket, _: threading.Event) -> bool:
        connection.sendall(HEAD + body)
        event.wait(10)
        return False

    return step


def over_http1(gate: Gate, begun: threading.Event, *, sign: bytes = b"\r\n\r\n") -> bool:
    """Return whether the response is complete; set the event when its head, or another sign, is here."""
    with socket.create_connection(("127.0.0.1", gate.ghost.ports["http-80"]), timeout=20) as connection:
        connection.sendall(f"GET {gate.path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
        received = b""
        while piece := connection.recv(65536):
            received += piece
            if sign in received:
                begun.set()
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    return body.endswith(b"0\r\n\r\n") if b"chunked" in head else body == b"done"


def through_http2(gate: Gate, begun: threading.Event) -> bool:
    """Do the same over HTTP/2."""
    request = Request(method="GET", target=gate.path, host="a")
    (found,) = asyncio.run(over_http2(gate.ghost.ports["http-80"], [request], on_head=begun.set))
    assert found.status == 200
    return found.complete


@contextlib.contextmanager
def asking(ask: Ask, gate: Gate, *, times: int = 1) -> Iterator[tuple[list[bool], threading.Event]]:
    """Ask in threads; the event says that the head of a response has come.

    When the context ends, the list holds whether the responses are complete.
    """
    found: list[bool] = []
    begun = threading.Event()
    with ThreadPoolExecutor() as pool:
        futures = [pool.submit(ask, gate, begun) for _ in range(times)]
        yield found, begun
        found += [future.result() for future in futures]


def fail_fetch(gate: Gate, event: threading.Event) -> None:
    """Have the origin close, and wait until varnishd is done with the fetch."""
    event.set()
    until(
        lambda: any(f" {gate.path}\n" in fetch and "FetchError" in fetch for fetch in gate.ghost.fetches),
        "the fetch has failed",
    )


clients = pytest.mark.parametrize("ask", [over_http1, through_http2])
policies = pytest.mark.parametrize("cache", [policy(), None], ids=["policy", "pass"])
bodies = pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())


@clients
@policies
@bodies
def test_response_that_breaks_off_before_its_delivery_is_incomplete(serve, gate, ask, cache, body):
    event = threading.Event()
    with ScriptedOrigin(broken(event, body), answer()) as origin:
        serve(origin, cache=cache)
        with asking(ask, gate) as (complete, _):
            gate.wait()
            fail_fetch(gate, event)
            gate.open()
        assert complete == [False]


@clients
@policies
@bodies
def test_response_that_breaks_off_during_its_delivery_is_incomplete(serve, gate, ask, cache, body):
    event = threading.Event()
    with ScriptedOrigin(broken(event, body), answer()) as origin:
        serve(origin, cache=cache)
        with asking(ask, gate) as (complete, begun):
            gate.wait()
            gate.open()
            assert begun.wait(10)
            event.set()
        assert complete == [False]


@clients
def test_hit_on_a_response_that_breaks_off_is_incomplete(serve, gate, ask):
    event = threading.Event()
    with ScriptedOrigin(broken(event, BODIES["part"]), answer()) as origin:
        serve(origin, cache=policy())
        with asking(ask, gate, times=3) as (complete, _):
            gate.wait(3)
            assert len(origin.requests) == 1
            fail_fetch(gate, event)
            gate.open()
        assert complete == [False] * 3


def pages(gate: Gate, depth: int) -> list[Step]:
    """Return pages that include each other, and the last one what is behind them."""
    bodies = [f'<p><esi:include src="{gate.path}/{level}"/></p>'.encode() for level in range(depth)]
    return [answer(body=body, headers=["Content-Type: text/html"]) for body in bodies]


@pytest.mark.parametrize("depth", [1, 2])
def test_page_is_incomplete_if_a_fragment_breaks_off_during_its_delivery(ghost, serve, gate, depth):
    ghost.load_vcl()
    event = threading.Event()
    with ScriptedOrigin(*pages(gate, depth), broken(event, BODIES["chunk"]), answer()) as origin:
        serve(origin, cache=policy(esi=True))
        with asking(partial(over_http1, sign=b"01234"), gate) as (complete, begun):
            assert begun.wait(10)
            event.set()
        assert complete == [False]


@clients
@policies
def test_whole_response_that_ends_before_its_delivery_is_complete(serve, gate, ask, cache):
    with ScriptedOrigin(answer(headers=["Cache-Control: max-age=60"])) as origin:
        serve(origin, cache=cache)
        with asking(ask, gate) as (complete, _):
            gate.wait()
            gate.open()
        assert complete == [True]
