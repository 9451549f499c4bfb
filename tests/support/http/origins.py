"""Origins that record what reaches them.

In:   the name of an origin.
Out:  a loopback port on which it answers every request with 200, its name in the header
      Echo-Service, and the request as JSON (``Seen``). Header lines that a request asks for
      in Echo-Answer (a JSON list) are added to the answer; Echo-Delay has it wait for so
      many seconds, and Echo-Failures ("503 2 a-name") fail so many times by that name.

``Origins`` lives in the test's own event loop, ``Origin`` in a thread, for tests without one.
"""

import asyncio
import contextlib
import json
import threading
from asyncio import StreamReader, StreamWriter
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Self

from msgspec import Struct

from varnish_gateway.ir import wire

HEAD_LIMIT = 1 << 20
TIMEOUT_SECONDS = 20.0


class ReceivedRequest(Struct, frozen=True):
    """A request as it arrived; text is latin-1, so every byte has its character."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: str

    def values(self, name: str) -> list[str]:
        return [value for header, value in self.headers if header.lower() == name.lower()]


class Origins:
    """Starts an origin when it is first asked for; they live until ``close``."""

    def __init__(self) -> None:
        self._servers: dict[str, Server] = {}

    async def port(self, name: str) -> int:
        if name not in self._servers:
            self._servers[name] = Server(name)
            await self._servers[name].start()
        return self._servers[name].port

    async def close(self) -> None:
        for server in self._servers.values():
            await server.close()


class Origin:
    """One origin on a thread of its own, which remembers what it saw.

    ``headers`` are added to every answer.
    """

    def __init__(
        self, name: str = "origin", *, headers: Sequence[tuple[str, str]] = (), address: str = "127.0.0.1"
    ) -> None:
        self.seen: list[ReceivedRequest] = []
        self.address = address
        self._server = Server(name, [f"{header}: {value}" for header, value in headers], self.seen.append, address)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    @property
    def port(self) -> int:
        return self._server.port

    @property
    def endpoint(self) -> wire.Endpoint:
        return wire.Endpoint(address=self.address, port=self.port)

    @property
    def connections(self) -> int:
        """How many connections were made to it."""
        return self._server.connections

    def __enter__(self) -> Self:
        self._thread.start()
        self._run(self._server.start())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._server.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(TIMEOUT_SECONDS)


class Server:
    """Listens on a free port and answers."""

    def __init__(
        self,
        name: str,
        lines: Iterable[str] = (),
        saw: Callable[[ReceivedRequest], object] = bool,
        address: str = "127.0.0.1",
    ) -> None:
        self.connections = 0
        self._name = name
        self._lines = tuple(lines)
        self._saw = saw
        self._address = address
        self._failures: Counter[str] = Counter()
        self._open: dict[StreamWriter, asyncio.Task[None] | None] = {}

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, self._address, 0, limit=HEAD_LIMIT, backlog=512)
        self.port = int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        self._server.close()
        serving = list(self._open.values())
        for writer in self._open:
            writer.close()
        await asyncio.gather(*filter(None, serving))
        await self._server.wait_closed()

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        self.connections += 1
        self._open[writer] = asyncio.current_task()
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                last = False
                while not last:
                    seen = await _read(reader)
                    self._saw(seen)
                    await asyncio.sleep(sum(map(float, seen.values("echo-delay"))))
                    writer.write(self._answer(seen))
                    await writer.drain()
                    last = "close" in seen.values("connection")
        finally:
            del self._open[writer]
            writer.close()

    def _answer(self, seen: ReceivedRequest) -> bytes:
        asked: Iterable[str] = (line for text in seen.values("echo-answer") for line in json.loads(text))
        content = json.dumps({field: getattr(seen, field) for field in seen.__struct_fields__})
        length = f"Content-Length: {len(content)}"
        head = [f"HTTP/1.1 {self._status(seen)} Echo", f"Echo-Service: {self._name}", length, *self._lines, *asked]
        body = "" if seen.method == "HEAD" else content
        return ("\r\n".join(head) + "\r\n\r\n" + body).encode("latin-1")

    def _status(self, seen: ReceivedRequest) -> int:
        for asked in seen.values("echo-failures"):
            status, times, name = asked.split(" ")
            self._failures[name] += 1
            if self._failures[name] <= int(times):
                return int(status)
        return 200


async def _read(reader: StreamReader) -> ReceivedRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head[:-4].split("\r\n")
    method, target, _ = first.split(" ")
    headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    last = {name.lower(): value for name, value in headers}
    if last.get("transfer-encoding") == "chunked":
        body = await _read_chunks(reader)
    else:
        body = await reader.readexactly(int(last.get("content-length", 0)))
    return ReceivedRequest(method, target, headers, body.decode("latin-1"))


async def _read_chunks(reader: StreamReader) -> bytes:
    body = b""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readuntil(b"\r\n")
    return body
