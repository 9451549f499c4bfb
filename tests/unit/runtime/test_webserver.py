"""The small HTTP server that every process of ours has."""

import asyncio
import logging
import socket

import aiohttp
import pytest

from varnish_gateway import errors
from varnish_gateway.runtime.environment import Address
from varnish_gateway.runtime.webserver import WebServer, alive

ANY_PORT = Address("127.0.0.1", 0)


async def test_page_answers_its_methods():
    server = WebServer({"GET /health": alive, "* /drain": alive}, "HEALTH_ADDR")
    await server.start(ANY_PORT)
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session:

            async def status(method, path):
                async with session.request(method, path) as answer:
                    return answer.status

            methods = ("GET", "HEAD", "POST")
            assert [await status(method, "/health") for method in methods] == [200, 200, 405]
            assert [await status(method, "/drain") for method in methods] == [200, 200, 200]
            assert await status("GET", "/") == 404
    finally:
        await server.stop()


async def failing(_):
    raise RuntimeError("a bug")


@pytest.mark.parametrize("line", ["Authorization: Bearer {}\x01", "Authorization Bearer {}", "Bad Name: {}"])
async def test_log_quotes_no_malformed_request(caplog, line):
    server = WebServer({"GET /health": alive}, "HEALTH_ADDR")
    await server.start(ANY_PORT)
    with caplog.at_level(logging.DEBUG):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(f"GET /health HTTP/1.1\r\nHost: a\r\n{line.format('secret')}\r\n\r\n".encode())
        assert (await reader.read()).split()[1] == b"400"
        writer.close()
    await server.stop()
    assert "secret" not in caplog.text


async def test_bug_of_a_page_is_logged(caplog):
    server = WebServer({"GET /health": failing}, "HEALTH_ADDR")
    await server.start(ANY_PORT)
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{server.port}/health") as answer:
        assert answer.status == 500
    await server.stop()
    assert "RuntimeError: a bug" in caplog.text


async def test_address_in_use_names_the_setting():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = WebServer({"GET /health": alive}, "HEALTH_ADDR")
        with pytest.raises(errors.BadSettings, match=rf"^HEALTH_ADDR: can't listen at 127\.0\.0\.1:{port}: .*in use"):
            await server.start(Address("127.0.0.1", port))
        await server.stop()
