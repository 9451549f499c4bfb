"""The small HTTP server that every process of ours has."""

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


async def test_address_in_use_names_the_setting():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = WebServer({"GET /health": alive}, "HEALTH_ADDR")
        with pytest.raises(errors.BadSettings, match=rf"^HEALTH_ADDR: can't listen at 127\.0\.0\.1:{port}: .*in use"):
            await server.start(Address("127.0.0.1", port))
        await server.stop()
