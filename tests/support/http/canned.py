"""A server on loopback that gives every request the same bytes.

In:   the answer.
Out:  its port, and the requests that it got.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import NamedTuple


class CannedServer(NamedTuple):
    port: int
    requests: asyncio.Queue[bytes]


@contextlib.asynccontextmanager
async def answering(answer: bytes) -> AsyncIterator[CannedServer]:
    requests = asyncio.Queue[bytes]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        _, _, length = head.partition(b"Content-Length: ")
        body = await reader.readexactly(int(length.split(b"\r\n")[0] or b"0"))
        requests.put_nowait(head + body)
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield CannedServer(server.sockets[0].getsockname()[1], requests)
    server.close()
