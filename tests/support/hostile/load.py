"""Ordinary traffic at a steady rate, whatever the gateway does.

In:   requests to send in a cycle, and how many a second.
Out:  LoadReport: how long each took from the moment it was due, and every error.

A request is sent when it is due, not when an earlier one is answered, and its time counts from then:
a stall of the gateway shows in every request that it delays. Connections are kept alive; some
requests open one of their own. ``python -m support.hostile.load`` is such traffic as a process.
"""

import asyncio
import gc
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import Struct, convert, to_builtins

from support.hostile.site import TENANTS, host
from support.http.client import Connection, Port
from support.varnish.tls import secure

SECONDS = 10.0
"""A request without a response for so long is an error."""
IDLE_SECONDS = 2.0
"""The gateway closes idle connections after 5 s: one that is idle for longer isn't used again."""
PAGES = 10


@dataclass(frozen=True)
class OrdinaryRequest:
    """A request of a client that the gateway has to serve well."""

    is_secure: bool
    host: str
    page: str
    is_hit: bool = False
    is_fresh: bool = False
    """Whether it opens a connection of its own."""


@dataclass
class LoadReport:
    """Milliseconds of each request that was served, and how often each error occurred."""

    milliseconds: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)

    def percentile(self, percent: float) -> float:
        """Return the time within which this share of the requests was served."""
        ordered = sorted(self.milliseconds)
        return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def cycle() -> list[OrdinaryRequest]:
    """Return a mix: three hits of ten, four of ten over TLS, one of twenty on a new connection.

    New connections with TLS are rarer than one in a hundred: they cost this process more than the gateway, and would
    decide the p99.
    """
    return [
        OrdinaryRequest(
            is_secure=number % 5 in (1, 3),
            host=host(TENANTS[number % len(TENANTS)]),
            page=f"/{number % PAGES}",
            is_hit=number % 10 in (2, 3, 5),
            is_fresh=number % 20 == 6 or number == 11,
        )
        for number in range(240)
    ]


class OpenLoop:
    """Sends requests in a cycle, each when it is due."""

    def __init__(self, http: int, https: int, requests: Sequence[OrdinaryRequest]) -> None:
        self._ports: dict[bool, Port] = {False: http, True: secure(https, "shop.test")}
        self._requests = requests
        self._idle: dict[bool, list[tuple[float, Connection]]] = {False: [], True: []}
        self.report = LoadReport()

    async def run(self, rate: float, seconds: float, start: float | None = None) -> LoadReport:
        """Send so many requests a second for so long; return when each is served, or has failed."""
        began = time.perf_counter() if start is None else start
        async with asyncio.TaskGroup() as group:
            for number in range(round(rate * seconds)):
                due = began + number / rate
                await asyncio.sleep(due - time.perf_counter())
                group.create_task(self._send(self._requests[number % len(self._requests)], due))
        for pool in self._idle.values():
            for _, connection in pool:
                await connection.close()
        return self.report

    async def _send(self, request: OrdinaryRequest, due: float) -> None:
        connection = self._connection(request)
        try:
            async with asyncio.timeout(SECONDS):
                answer = await connection.ask(request.host, request.page, "X-Hit: 1\r\n" if request.is_hit else "")
        except (OSError, EOFError, TimeoutError) as error:
            self.report.errors[f"{type(error).__name__}: {error}"] += 1
            await connection.close()
            return
        took = time.perf_counter() - due
        if answer.status == 200:
            self.report.milliseconds.append(took * 1000)
        else:
            self.report.errors[f"status {answer.status}"] += 1
        if request.is_fresh:
            await connection.close()
        else:
            self._idle[request.is_secure].append((time.perf_counter(), connection))

    def _connection(self, request: OrdinaryRequest) -> Connection:
        pool = self._idle[request.is_secure]
        if not request.is_fresh:
            while pool:
                since, connection = pool.pop()
                if time.perf_counter() - since < IDLE_SECONDS:
                    return connection
                connection.abandon()
        return Connection(self._ports[request.is_secure])


class LoadOrder(Struct, frozen=True):
    """What a process of its own is asked for."""

    http: int
    https: int
    rate: float
    start: float
    """When, by the machine's monotonic clock, which processes share."""
    seconds: float

    @property
    def words(self) -> tuple[str, ...]:
        """The command line that carries it out."""
        return (sys.executable, "-m", "support.hostile.load", json.dumps(to_builtins(self)))


def main() -> None:
    order = convert(json.loads(sys.argv[1]), LoadOrder)
    gc.disable()  # a pause of this process would count as one of the gateway
    report = asyncio.run(OpenLoop(order.http, order.https, cycle()).run(order.rate, order.seconds, order.start))
    print(json.dumps(vars(report)))


if __name__ == "__main__":
    main()
