"""Clients that mean harm, and well-behaved ones that offer the same load in their place.

In:   the port of a HostileSite.
Out:  Crowds. Each client of a crowd visits the gateway at fixed times; a hostile visit lasts until the
      next one if the gateway lets it, a well-behaved one sends the same number of requests and bytes
      and ends. ``outcomes`` counts how visits ended.
"""

import asyncio
import contextlib
import time
from asyncio import StreamReader, StreamWriter
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from support.hostile.site import LONG_HEADER, host
from support.http.websocket import ACCEPTED

LONG_BYTES = 30_000
UPLOAD_BYTES = 10
HELD = "held until the end"

Conversation = Callable[[StreamReader, StreamWriter], Awaitable[str]]
"""What a client does with a connection; returns how it ended."""


@dataclass(frozen=True)
class Crowd:
    """``every`` so many seconds, each of its clients visits the gateway."""

    clients: int
    every: float
    hostile: Conversation
    behaved: Conversation


@dataclass
class Visits:
    """The visits of a crowd, from their start until they are cancelled."""

    port: int
    crowd: Crowd
    conversation: Conversation
    outcomes: Counter[str] = field(default_factory=Counter)

    async def run(self, start: float) -> None:
        gap = self.crowd.every / self.crowd.clients
        async with asyncio.TaskGroup() as group:
            for number in range(self.crowd.clients):
                group.create_task(self._client(start + number * gap))

    async def _client(self, due: float) -> None:
        while True:
            await asyncio.sleep(due - time.perf_counter())
            due += self.crowd.every
            self.outcomes[await self._visit(due)] += 1

    async def _visit(self, until: float) -> str:
        writer: StreamWriter | None = None
        try:
            async with asyncio.timeout(until - time.perf_counter()):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                return await self.conversation(reader, writer)
        except TimeoutError:
            return HELD
        except asyncio.CancelledError:
            self.outcomes[HELD] += 1
            raise
        except (OSError, EOFError) as error:
            return type(error).__name__
        finally:
            if writer is not None:
                writer.transport.abort()


def crowds(*, clients: int, every: float) -> dict[str, Crowd]:
    """Return all crowds; those that hold connections have so many clients."""
    long = f"{LONG_HEADER}: {'a' * LONG_BYTES}\r\n"
    good = host("good")
    return {
        "regexes": Crowd(10, 0.5, _get(host("regexes"), long), _get(good, long)),
        "loops": Crowd(20, 1.0, _get(host("itself")), _get(good)),
        "slow backend": Crowd(clients, every, _get(host("silent")), _get(good)),
        "slow uploads": Crowd(
            clients, every, _upload(good, promised=100 * UPLOAD_BYTES, pause=every / UPLOAD_BYTES), _upload(good)
        ),
        "idle WebSockets": Crowd(clients, every, _open_websocket(is_idle=True), _open_websocket(is_idle=False)),
    }


def _head(method: str, to: str, lines: str = "") -> bytes:
    return f"{method} / HTTP/1.1\r\nHost: {to}\r\n{lines}\r\n".encode()


def _get(to: str, lines: str = "") -> Conversation:
    request = _head("GET", to, lines)

    async def converse(reader: StreamReader, writer: StreamWriter) -> str:
        writer.write(request)
        return await _status(reader)

    return converse


def _upload(to: str, *, promised: int = UPLOAD_BYTES, pause: float = 0) -> Conversation:
    """Send some bytes of what the head promises, one after each pause."""
    head = _head("POST", to, f"Content-Length: {promised}\r\n")

    async def converse(reader: StreamReader, writer: StreamWriter) -> str:
        writer.write(head)
        answered = asyncio.ensure_future(_status(reader))
        try:
            for _ in range(UPLOAD_BYTES):
                await asyncio.wait({answered}, timeout=pause)
                if answered.done():
                    break
                writer.write(b"x")
            return await answered
        finally:
            answered.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError, EOFError):
                await answered

    return converse


def _open_websocket(*, is_idle: bool) -> Conversation:
    lines = (
        "Connection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    )
    handshake = _head("GET", host("websocket"), lines)

    async def converse(reader: StreamReader, writer: StreamWriter) -> str:
        writer.write(handshake)
        status = await _status(reader)
        if is_idle and status == "101":
            await reader.read()  # until the gateway ends it
        return status

    return converse


async def _status(reader: StreamReader) -> str:
    return (await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1].decode()


# -- origins that they need ------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def silent_origin() -> AsyncIterator[int]:
    """Yield the port of an origin that reads requests and never answers."""

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while await reader.read(65536):
                pass
        writer.close()

    async with _serving(serve) as port:
        yield port


@contextlib.asynccontextmanager
async def websocket_origin() -> AsyncIterator[int]:
    """Yield the port of an origin that accepts WebSockets and says nothing."""

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        with contextlib.suppress(OSError, EOFError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(ACCEPTED)
            await reader.read()
        writer.close()

    async with _serving(serve) as port:
        yield port


@contextlib.asynccontextmanager
async def _serving(serve: Callable[[StreamReader, StreamWriter], Awaitable[None]]) -> AsyncIterator[int]:
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=1024)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
