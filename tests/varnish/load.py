"""Constant load that knows what each answer may be.

Each host has a set of origins that may answer it. A request is judged by what was allowed at
any time between its beginning and its end.
"""

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

MISSING = "404"


class Client:
    """One keep-alive connection."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, host: str) -> tuple[str, dict[str, str]]:
        """Return which origin answered (or the status of another answer) and the headers."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        await reader.readexactly(int(headers["content-length"]))
        if headers.get("connection") == "close":
            await self.close()
        status = first.split(" ")[1]
        return (headers["echo-service"] if status == "200" else status), headers

    async def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            with contextlib.suppress(OSError):
                await self._streams[1].wait_closed()
            self._streams = None


@dataclass
class Load:
    """What is sent, what may come back, and what went wrong."""

    port: int
    allowed: dict[str, frozenset[str]]
    answered: int = 0
    wrong: list[str] = field(default_factory=list)
    failed: list[tuple[float, str]] = field(default_factory=list)
    """Requests without an answer: when they began, and why."""

    def allow(self, host: str, *origins: str) -> None:
        self.allowed[host] = frozenset(origins)

    async def send_forever(self, offset: int) -> None:
        client = Client(self.port)
        hosts = itertools.islice(itertools.cycle(list(self.allowed)), offset, None)
        try:
            for host in hosts:
                await self._send(client, host)
        finally:
            await client.close()

    async def _send(self, client: Client, host: str) -> None:
        began, before = time.monotonic(), self.allowed[host]
        try:
            async with asyncio.timeout(10):
                answer, _ = await client.ask(host)
        except (OSError, EOFError, TimeoutError) as error:
            self.failed.append((began, repr(error)))
            await client.close()
            await asyncio.sleep(0.005)  # not a wait for anything: a gap is not to be hammered
            return
        self.answered += 1
        if answer not in before | self.allowed[host]:
            self.wrong.append(f"{host}: {answer} instead of {set(before | self.allowed[host])}")


@contextlib.asynccontextmanager
async def under_load(port: int, allowed: dict[str, frozenset[str]], connections: int = 8) -> AsyncIterator[Load]:
    """Keep this many requests in flight."""
    load = Load(port, allowed)
    workers = [asyncio.create_task(load.send_forever(number)) for number in range(connections)]
    try:
        yield load
    finally:
        for worker in workers:
            worker.cancel()
        for result in await asyncio.gather(*workers, return_exceptions=True):
            if isinstance(result, Exception):
                raise result
