"""Constant traffic from outside the cluster, and what became of every request.

In:   an address, and requests to send.
Out:  TrafficReport: how often each answer came (status and the pod that gave it), and every failure.
"""

import asyncio
import contextlib
import json
import ssl
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
    may_resend: bool = False
    """Whether a request that meets the end of a connection that was used before is sent again (RFC 9112, 9.3.1)."""
    resent: int = 0

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
    tls: ssl.SSLContext | None = None

    async def connect(self) -> Streams:
        name = self.host if self.tls else None
        return await asyncio.open_connection(self.address, self.port, ssl=self.tls, server_hostname=name)


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

    def __init__(self, target: Target, seen: TrafficReport, *, fresh: bool, gap: float = 0.0) -> None:
        self._target, self._seen, self._fresh, self._gap = target, seen, fresh, gap
        self._streams: Streams | None = None

    async def send_forever(self) -> None:
        try:
            while True:
                await self._send()
                if self._gap:
                    await asyncio.sleep(self._gap)
        finally:
            await self._close()

    async def _send(self) -> None:
        began, is_reused = time.monotonic(), self._streams is not None
        try:
            async with asyncio.timeout(SECONDS):
                if self._streams is None:
                    self._streams = await self._target.connect()
                status, body, stays = await ask(self._target, self._streams)
        except (OSError, EOFError, TimeoutError) as error:
            await self._close()
            if self._seen.may_resend and is_reused and _is_unanswered(error):
                self._seen.resent += 1
                return
            self._seen.failures.append((began, f"{type(error).__name__}: {error}"))
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


def _is_unanswered(error: Exception) -> bool:
    """Whether a connection ended before the first byte of an answer."""
    return isinstance(error, ConnectionError) or (isinstance(error, asyncio.IncompleteReadError) and not error.partial)


@contextlib.asynccontextmanager
async def traffic(
    target: Target, *, senders: int = 4, fresh: bool = False, gap: float = 0.0, may_resend: bool = False
) -> AsyncIterator[TrafficReport]:
    """Keep this many requests on their way; with a gap, each sender pauses so long between two of them.

    New connections for minutes need a gap: each occupies a port of the client for a minute after its end.
    ``may_resend`` is the first value of the report's, which can change at any time.
    """
    seen = TrafficReport(may_resend=may_resend)
    made = [Sender(target, seen, fresh=fresh, gap=gap) for _ in range(senders)]
    tasks = [asyncio.create_task(sender.send_forever()) for sender in made]
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
    streams = await target.connect()
    try:
        async with asyncio.timeout(60):
            while not statuses[expected]:
                status, _, stays = await ask(target, streams)
                statuses[status] += 1
                if not stays:
                    streams[1].close()
                    streams = await target.connect()
                if status != expected:
                    await asyncio.sleep(PROBE_GAP)  # what is asked for needs the processor too
    finally:
        streams[1].close()
    return statuses, time.monotonic() - began
