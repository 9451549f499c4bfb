import asyncio
import contextlib

import pytest

from varnish_gateway.dataplane.ghost.loopback import get


@contextlib.asynccontextmanager
async def answering(answer):
    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


async def test_answer_is_parsed():
    async with answering(b"HTTP/1.1 500 No way\r\nX-Ghost-Error: a: b\r\n\r\nbody") as port:
        assert await get(port, "/", 2) == (500, {"x-ghost-error": "a: b"}, b"body")


async def test_chunked_answer_is_joined():
    chunks = b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    async with answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks) as port:
        assert (await get(port, "/", 2))[2] == b"abcde"


async def test_missing_answer_is_a_connection_error():
    async with answering(b"") as port:
        with pytest.raises(ConnectionError, match="without an answer"):
            await get(port, "/", 2)
