"""Constant traffic from outside the cluster, and what became of every request.

In:   an address, and requests to send.
Out:  TrafficReport: how often each answer came (status and the pod that gave it), and every failure.
"""

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

SECONDS = 10.0
PROBE_GAP = 0.002
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class TrafficReport:
    """What came back."""

    statuses: Counter[int] = field(default_factory=Counter)
    services: Counter[str] = field(default_factory=Counter)
    pods: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[float, str]] = field(default_factory=list)
    """Requests without an answer: when they began, and why."""

    @property
    def answered(self) -> int:
        return self.statuses.total()

    def take(self, status: int, body: bytes) -> None:
        self.statuses[status] += 1
        if status == 200:
            answer = json.loads(body)
            self.pods[answer["pod"]] += 1
            self.services[answer.get("service", "")] += 1


@dataclass(frozen=True)
class Target:
    """Where requests go."""

    address: str
    host: str
    port: int = 80
    path: str = "/"


async def ask(target: Target, streams: Streams) -> tuple[int, bytes, bool]:
    """Send one request; return status, body, and whether the connection stays."""
    reader, writer = streams
    writer.write(f"GET {target.path} HTTP/1.1\r\nHost: {target.host}\r\n\r\n".encode())
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    status = int(head.split(" ", 2)[1])
    body = await _body(head, reader)
    return status, body, "\r\nconnection: close" not in head


async def _body(head: str, reader: asyncio.StreamReader) -> bytes:
    headers = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
    if "content-length" in headers:
        return await reader.readexactly(int(headers["content-length"]))
    body = b""
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readexactly(2)
    return body


class Sender:
    """Sends one request after the other, over connections that are kept or over new ones."""

    def __init__(self, target: Target, seen: TrafficReport, *, fresh: bool) -> None:
        self._target, self._seen, self._fresh = target, seen, fresh
        self._streams: Streams | None = None

    async def send_forever(self) -> None:
        try:
            while True:
                await self._send()
        finally:
            await self._close()

    async def _send(self) -> None:
        began = time.monotonic()
        try:
            async with asyncio.timeout(SECONDS):
                if self._streams is None:
                    self._streams = await asyncio.open_connection(self._target.address, self._target.port)
                status, body, stays = await ask(self._target, self._streams)
        except (OSError, EOFError, TimeoutError) as error:
            self._seen.failures.append((began, f"{type(error).__name__}: {error}"))
            await self._close()
            await asyncio.sleep(0.01)  # not a wait for anything: a gap is not to be hammered
            return
        self._seen.take(status, body)
        if self._fresh or not stays:
            await self._close()

    async def _close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            with contextlib.suppress(OSError):
                await self._streams[1].wait_closed()
            self._streams = None


@contextlib.asynccontextmanager
async def traffic(target: Target, *, senders: int = 4, fresh: bool = False) -> AsyncIterator[TrafficReport]:
    """Keep this many requests on their way."""
    seen = TrafficReport()
    tasks = [asyncio.create_task(Sender(target, seen, fresh=fresh).send_forever()) for _ in range(senders)]
    try:
        yield seen
    finally:
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, Exception):
                raise result


async def probe(target: Target, expected: int = 200) -> tuple[Counter[int], float]:
    """Ask every few milliseconds until the expected status comes; return all statuses, and how long it took."""
    statuses: Counter[int] = Counter()
    began = time.monotonic()
    streams = await asyncio.open_connection(target.address, target.port)
    try:
        async with asyncio.timeout(60):
            while not statuses[expected]:
                status, _, stays = await ask(target, streams)
                statuses[status] += 1
                if not stays:
                    streams[1].close()
                    streams = await asyncio.open_connection(target.address, target.port)
                if status != expected:
                    await asyncio.sleep(PROBE_GAP)  # what is asked for needs the processor too
    finally:
        streams[1].close()
    return statuses, time.monotonic() - began
