"""A gateway that stops: its clients go elsewhere, and none of them loses a request or a part of a response."""

import asyncio
import contextlib
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import h2.config
import h2.connection
import pytest

from support.http import client as http_client
from support.http.client import Request, over_http1
from support.http.http2_frames import END_STREAM, GOAWAY, read_frame
from support.http.scripted_origin import ScriptedOrigin, answer, once, trickle
from support.varnish.dataplane import (
    endpoints,
    must_serve,
    port_of,
    published,
    routing,
    running,
    until_published,
    user_vcl,
)
from support.varnish.tls import https, secure
from support.waiting import until_async
from varnish_gateway.dataplane import events
from varnish_gateway.dataplane.change import Change
from varnish_gateway.dataplane.dataplane import DataPlane
from varnish_gateway.emit.vcl import main_vcl

PATIENCE = "-p", "timeout_idle=60"
"""Idle connections outlive every drain of these tests."""
DENIED = 'sub vcl_recv { if (req.url == "/denied") { return (synth(403)); } }'


@contextlib.asynccontextmanager
async def gateway(origins, vcl: str = "", **settings: object) -> AsyncIterator[DataPlane]:
    """Give a gateway that serves the host tea."""
    async with running(extra_args=PATIENCE, **settings) as plane:
        slices = endpoints("tea", await origins.port("tea"))
        await must_serve(plane, Change(vcl=user_vcl(vcl) if vcl else main_vcl(), routing=routing("tea"), slices=slices))
        yield plane


@pytest.fixture
async def plane(origins) -> AsyncIterator[DataPlane]:
    async with gateway(origins, DENIED) as made:
        yield made


async def begin_drain(plane: DataPlane) -> None:
    """As /drain does; return once ghost ends connections."""
    plane.start_draining()
    await until_draining(plane)


async def until_draining(plane: DataPlane) -> None:
    """Return once ghost ends connections."""

    async def says_close() -> bool:
        return await connection_header(plane) == "close"

    await until_async(says_close, "ghost drains")


async def connection_header(plane: DataPlane) -> str | None:
    connection = http_client.Connection(port_of(plane))
    try:
        return (await connection.ask("tea")).header("connection")
    finally:
        await connection.close()


# -- clients that keep their connections ------------------------------------------------------------


@dataclass
class Sender:
    """Sends one request after the other, over a connection that it keeps until it is told to close it.

    ``port`` is where a load balancer sends new connections.
    """

    port: Callable[[], int]
    answered: int = 0
    lost: list[str] = field(default_factory=list)
    left: set[int] = field(default_factory=set)
    """The ports whose gateway has asked it to leave."""

    async def send_forever(self) -> None:
        while True:
            port = self.port()
            connection = http_client.Connection(port)
            try:
                while (await connection.ask("tea")).header("connection") != "close":
                    self.answered += 1
                self.left.add(port)
            except (OSError, EOFError) as error:
                self.lost.append(repr(error))
            finally:
                await connection.close()


@contextlib.asynccontextmanager
async def senders(port: Callable[[], int], count: int = 8) -> AsyncIterator[list[Sender]]:
    made = [Sender(port) for _ in range(count)]
    tasks = [asyncio.create_task(sender.send_forever()) for sender in made]
    try:
        yield made
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def test_clients_with_kept_connections_move_to_another_gateway_without_a_lost_request(origins):
    async with gateway(origins, drain_delay_seconds=1.0) as first, gateway(origins) as second:
        ports = port_of(first), port_of(second)
        began: list[float] = []

        def balanced() -> int:
            """Return where a load balancer sends connections, which learns only after a while of unready gateways."""
            return ports[1] if began and time.monotonic() > began[0] + 0.5 else ports[0]

        async with senders(balanced) as clients:
            await until_async(lambda: min(client.answered for client in clients) > 20, "each has a connection")
            began.append(time.monotonic())
            await first.stop(drain_seconds=10)
            took = time.monotonic() - began[0]
            stopped_at = [client.answered for client in clients]
            await until_async(
                lambda: all(client.answered > before for client, before in zip(clients, stopped_at, strict=True)),
                "each goes on with the second gateway",
            )
    assert [client.lost for client in clients] == [[]] * len(clients)
    assert all(client.left == {ports[0]} for client in clients), "each was asked to leave"
    assert took < 8, "the drain ends when the last client has left"


async def test_worker_that_varnishd_restarts_during_a_drain_ends_connections_too(plane):
    await begin_drain(plane)
    os.kill((await plane.admin.pid()).worker, signal.SIGKILL)
    await until_published(plane, events.ChildBack)
    await until_draining(plane)


async def test_response_to_a_request_from_before_the_drain_ends_its_connection(plane):
    drained = threading.Event()
    with ScriptedOrigin(once(drained, answer())) as slow:
        await must_serve(plane, Change(routing=routing("tea", "slow"), slices=endpoints("slow", slow.endpoint.port)))
        connection = http_client.Connection(port_of(plane))
        asking = asyncio.create_task(connection.ask("slow"))
        await until_async(lambda: slow.requests, "the request is under way")
        await begin_drain(plane)
        drained.set()
        assert (await asking).header("connection") == "close"


async def test_response_of_vcl_synth_ends_its_connection(plane):
    connection = http_client.Connection(port_of(plane))
    assert (await connection.ask("tea", "/denied")).header("connection") == "keep-alive"
    await begin_drain(plane)
    denied = await connection.ask("tea", "/denied")
    assert (denied.status, denied.header("connection")) == (403, "close")


async def test_client_reads_the_response_to_an_upload_that_vcl_denies(plane):
    """A body that varnishd leaves unread would have the kernel reset the connection, and discard the response."""
    await begin_drain(plane)
    head = f"POST /denied HTTP/1.1\r\nHost: tea\r\nContent-Length: {4 << 20}\r\n\r\n".encode()
    for _ in range(5):
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(plane))
        writer.write(head + bytes(4 << 20))
        await writer.drain()
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 403")
        writer.close()


async def test_drain_page_is_out_of_reach_of_clients(plane):
    reload_port = plane.supervisor.reload_port
    await must_serve(plane, Change(routing=routing("tea", "self"), slices=endpoints("self", reload_port)))
    request = Request(method="POST", target="/.varnish-ghost/drain", host="self")
    assert (await over_http1(port_of(plane), request.as_http1())).status == 508, "it is routed again, to itself"
    assert await connection_header(plane) == "keep-alive"


@pytest.mark.parametrize(
    ("method", "host", "status"), [("GET", "localhost", 405), ("POST", "evil.example", 421), ("POST", "", 421)]
)
async def test_only_a_post_to_localhost_begins_a_drain(plane, method, host, status):
    """Anything within the pod that follows a link could otherwise begin one, which nothing undoes."""
    request = Request(method=method, target="/.varnish-ghost/drain", host=host)
    port = plane.supervisor.reload_port
    assert (await over_http1(port, request.as_http1())).status == status
    assert await connection_header(plane) == "keep-alive"


async def test_idle_connection_ends_without_a_reset_when_the_time_is_over(plane):
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(plane))
    began = time.monotonic()
    stopping = asyncio.create_task(plane.stop(drain_seconds=2))
    async with asyncio.timeout(10):
        assert await reader.read() == b""
    assert time.monotonic() - began >= 2
    await stopping
    writer.close()


# -- TLS ---------------------------------------------------------------------------------------------


class Http2Client:
    """One HTTP/2 connection to the host tea. It reads frames by itself: the library reads none after a GOAWAY."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._talk = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="latin-1"))
        self._talk.initiate_connection()
        self.ended: set[int] = set()
        self.is_asked_to_leave = False

    async def send(self, delay: float = 0) -> int:
        stream = self._talk.get_next_available_stream_id()
        head = {":method": "GET", ":scheme": "https", ":path": "/", ":authority": "tea", "echo-delay": str(delay)}
        self._talk.send_headers(stream, list(head.items()), end_stream=True)
        self._writer.write(self._talk.data_to_send())
        await self._writer.drain()
        return stream

    async def read_until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                frame = await read_frame(self._reader)
                self.is_asked_to_leave |= frame.kind == GOAWAY
                if frame.flags & END_STREAM and frame.stream:
                    self.ended.add(frame.stream)

    def close(self) -> None:
        self._writer.close()


async def test_http2_clients_get_goaway_and_the_responses_that_they_wait_for(origins):
    async with https(origins) as (plane, port):
        idle, busy = [Http2Client(*await http_client.connect(secure(port, alpn=["h2"]))) for _ in range(2)]
        for client in (idle, busy):
            first = await client.send()
            await client.read_until(lambda client=client, first=first: first in client.ended)
        waiting = await busy.send(delay=2)
        stopping = asyncio.create_task(plane.stop(drain_seconds=10))
        await busy.read_until(lambda: waiting in busy.ended)
        await busy.read_until(lambda: busy.is_asked_to_leave)
        await idle.read_until(lambda: idle.is_asked_to_leave)
        assert not stopping.done()
        for client in (idle, busy):
            client.close()
        await stopping


# -- long responses ----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "tls"])
async def test_download_finishes_within_the_drain(origins, is_tls):
    pieces = [b"HTTP/1.1 200 OK\r\nContent-Length: 30000\r\n\r\n", *[bytes(1000)] * 30]
    with ScriptedOrigin(trickle(pieces, 0.1)) as slow:
        async with https(origins) as (plane, port):
            await must_serve(plane, Change(routing=routing("slow"), slices=endpoints("slow", slow.endpoint.port)))
            reader, writer = await http_client.connect(secure(port) if is_tls else port_of(plane))
            writer.write(b"GET / HTTP/1.1\r\nHost: slow\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
            stopping = asyncio.create_task(plane.stop(drain_seconds=10))
            await until_published(plane, events.Draining)
            async with asyncio.timeout(8):
                assert len(await reader.readexactly(30000)) == 30000
            writer.close()
            await stopping
        assert not published(plane, events.ChildDied)


async def test_download_that_outlasts_the_drain_is_cut_at_its_end_and_not_before(origins):
    pieces = [b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", *[bytes(1000)] * 100]
    with ScriptedOrigin(trickle(pieces, 0.1)) as slow:
        async with gateway(origins) as plane:
            await must_serve(plane, Change(routing=routing("slow"), slices=endpoints("slow", slow.endpoint.port)))
            reader, writer = await asyncio.open_connection("127.0.0.1", port_of(plane))
            writer.write(b"GET / HTTP/1.1\r\nHost: slow\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
            began = time.monotonic()
            stopping = asyncio.create_task(plane.stop(drain_seconds=3))
            with contextlib.suppress(ConnectionError):
                while await reader.read(65536):
                    pass
            assert time.monotonic() - began >= 3
            writer.close()
            await stopping
