"""A server whose clients can't cost more than so much."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from varnish_gateway import errors
from varnish_gateway.operator.address import server as module
from varnish_gateway.operator.address.server import InvalidationServer
from varnish_gateway.runtime.environment import Address

REQUEST = b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"


async def page(_: web.Request) -> web.Response:
    return web.Response(text="done")


@contextlib.asynccontextmanager
async def serving(handler=page) -> AsyncIterator[InvalidationServer]:
    server = InvalidationServer("/{name}", handler)
    await server.start(Address("127.0.0.1", 0))
    running = asyncio.create_task(server.run())
    try:
        yield server
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        await server.stop()


async def exchange(server: InvalidationServer, request: bytes = REQUEST) -> bytes:
    """Send a request; return everything up to the end of the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(request)
    try:
        return await reader.read()
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (REQUEST, b"200"),
        (REQUEST * 3, b"200"),
        (REQUEST.replace(b"/a", b"/a/b") * 3, b"404"),
        (REQUEST.replace(b"POST", b"GET") * 3, b"405"),
        (b"malformed\r\n\r\n" * 3, b"400"),
    ],
    ids=["one", "pipelined", "no such path", "other method", "malformed"],
)
async def test_connection_ends_after_one_request(request_, status):
    async with serving() as server:
        answer = await exchange(server, request_)
        assert answer.split()[1] == status
        assert answer.count(b"HTTP/1.") == 1


async def test_connections_are_accepted_at_a_bounded_rate(monkeypatch):
    monkeypatch.setattr(module, "PER_SECOND", 50)
    monkeypatch.setattr(module, "BURST", 5)
    async with serving() as server:
        began = time.monotonic()
        answers = await asyncio.gather(*(exchange(server) for _ in range(30)))
        assert {answer.split()[1] for answer in answers} == {b"200"}
        assert time.monotonic() - began > 24 / 50


async def test_connection_without_a_request_is_closed(monkeypatch):
    monkeypatch.setattr(module, "HEAD_SECONDS", 0.05)
    async with serving() as server:
        for sent in (b"", b"POST /a HTTP/1.1\r\nHos"):
            with contextlib.suppress(ConnectionResetError):
                assert await exchange(server, sent) == b""


async def test_oldest_silent_connection_makes_room(monkeypatch):
    monkeypatch.setattr(module, "MOST_SILENT", 3)
    async with serving() as server:
        silent = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(3)]
        assert (await exchange(server)).split()[1] == b"200"
        with contextlib.suppress(ConnectionResetError):
            assert await silent[0][0].read() == b""
        silent[2][1].write(REQUEST)
        assert (await silent[2][0].read()).split()[1] == b"200"
        for _, writer in silent:
            writer.close()


async def test_request_that_takes_long_is_not_silent(monkeypatch):
    monkeypatch.setattr(module, "HEAD_SECONDS", 0.05)
    end = asyncio.Event()

    async def slow(_: web.Request) -> web.Response:
        asyncio.get_running_loop().call_later(0.2, end.set)
        await end.wait()
        return web.Response(text="done")

    async with serving(slow) as server:
        assert (await exchange(server)).endswith(b"done")


async def test_connections_wait_until_the_server_runs():
    server = InvalidationServer("/{name}", page)
    await server.start(Address("127.0.0.1", 0))
    asking = asyncio.create_task(exchange(server))
    running = asyncio.create_task(server.run())
    assert (await asking).split()[1] == b"200"
    running.cancel()
    await asyncio.wait({running})
    await server.stop()


async def test_failure_to_accept_ends_nothing(monkeypatch, caplog):
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.01)
    loop = asyncio.get_running_loop()
    accept, failures = loop.sock_accept, [OSError(24, "Too many open files")]

    async def sometimes(listening: socket.socket):
        if failures:
            raise failures.pop()
        return await accept(listening)

    monkeypatch.setattr(loop, "sock_accept", sometimes)
    async with serving() as server:
        assert (await exchange(server)).split()[1] == b"200"
    assert "INVALIDATION_ADDR: a connection can't be accepted: [Errno 24] Too many open files" in caplog.text


async def test_every_address_is_served_in_both_families():
    server = InvalidationServer("/{name}", page)
    await server.start(Address("", 0))
    running = asyncio.create_task(server.run())
    assert (await exchange(server)).split()[1] == b"200"
    running.cancel()
    await asyncio.wait({running})
    await server.stop()


async def test_address_in_use_is_an_error_of_the_setting():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = InvalidationServer("/{name}", page)
        with pytest.raises(errors.BadSettings, match=rf"^INVALIDATION_ADDR: can't listen at 127\.0\.0\.1:{port}: "):
            await server.start(Address("127.0.0.1", port))
        await server.stop()
