"""Constant load that knows what each answer may be.

Each host has a set of origins that may answer it, or of statuses. An answer is wrong
if it was not allowed at any time between the request and the answer.
"""

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from support.http.client import Connection, Port

Answerer = str | int
"""The origin that answered, or the status of another answer."""


@dataclass
class Load:
    """What is sent, what may come back, and what went wrong."""

    port: Port
    allowed: dict[str, frozenset[Answerer]]
    answered: int = 0
    wrong: list[str] = field(default_factory=list)
    failed: list[tuple[float, str]] = field(default_factory=list)
    """Requests without an answer: when they began, and why."""

    def allow(self, host: str, *answerers: Answerer) -> None:
        self.allowed[host] = frozenset(answerers)

    async def send_forever(self, offset: int) -> None:
        connection = Connection(self.port)
        hosts = itertools.islice(itertools.cycle(list(self.allowed)), offset, None)
        try:
            for host in hosts:
                await self._send(connection, host)
        finally:
            await connection.close()

    async def _send(self, connection: Connection, host: str) -> None:
        began, before = time.monotonic(), self.allowed[host]
        try:
            async with asyncio.timeout(10):
                answered_by = (await connection.ask(host)).answered_by
        except (OSError, EOFError, TimeoutError) as error:
            self.failed.append((began, repr(error)))
            await connection.close()
            await asyncio.sleep(0.005)  # not a wait for anything: a gap is not to be hammered
            return
        self.answered += 1
        if answered_by not in before | self.allowed[host]:
            self.wrong.append(f"{host}: {answered_by} instead of {set(before | self.allowed[host])}")


@contextlib.asynccontextmanager
async def under_load(port: Port, allowed: dict[str, frozenset[Answerer]], connections: int = 8) -> AsyncIterator[Load]:
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
