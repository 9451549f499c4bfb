"""Origins that tell what reached them.

In:   the name of an origin.
Out:  a loopback port on which it answers every request with 200, its name in the header
Echo-Service, and the request as JSON (``Seen``). Header lines that a request asks for in
Echo-Answer (a JSON list) are added to the answer.
"""

import asyncio
import contextlib
import json
from asyncio import StreamReader, StreamWriter
from collections.abc import Iterable

from msgspec import Struct

HEAD_LIMIT = 1 << 20


class Seen(Struct, frozen=True):
    """A request as it arrived; text is latin-1, so every byte has its character."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: str


class Origins:
    """Starts an origin when it is first asked for; they live until ``close``."""

    def __init__(self) -> None:
        self._servers: dict[str, asyncio.Server] = {}
        self._connections: set[StreamWriter] = set()

    async def port(self, name: str) -> int:
        if name not in self._servers:
            self._servers[name] = await asyncio.start_server(
                lambda reader, writer: self._serve(name, reader, writer), "127.0.0.1", 0, limit=HEAD_LIMIT
            )
        port: int = self._servers[name].sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        for server in self._servers.values():
            server.close()
        for writer in list(self._connections):
            writer.close()
        for server in self._servers.values():
            await server.wait_closed()

    async def _serve(self, name: str, reader: StreamReader, writer: StreamWriter) -> None:
        self._connections.add(writer)
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                while True:
                    seen = await _read(reader)
                    writer.write(_answer(name, seen))
                    await writer.drain()
        finally:
            self._connections.discard(writer)
            writer.close()


async def _read(reader: StreamReader) -> Seen:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head[:-4].split("\r\n")
    method, target, _ = first.split(" ")
    headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    length = {name.lower(): value for name, value in headers}
    if length.get("transfer-encoding") == "chunked":
        body = await _read_chunks(reader)
    else:
        body = await reader.readexactly(int(length.get("content-length", 0)))
    return Seen(method, target, headers, body.decode("latin-1"))


async def _read_chunks(reader: StreamReader) -> bytes:
    body = b""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readuntil(b"\r\n")
    return body


def _answer(name: str, seen: Seen) -> bytes:
    asked = [value for header, value in seen.headers if header.lower() == "echo-answer"]
    lines: Iterable[str] = json.loads(asked[0]) if asked else ()
    content = json.dumps({field: getattr(seen, field) for field in seen.__struct_fields__})
    head = ["HTTP/1.1 200 OK", f"Echo-Service: {name}", f"Content-Length: {len(content)}", *lines]
    body = "" if seen.method == "HEAD" else content
    return ("\r\n".join(head) + "\r\n\r\n" + body).encode("latin-1")
