"""A real API server with many routes, and an operator that serves them.

Both come from the support code of the tests. Each context manager stops the processes that it started.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from cluster.apiserver.server import Cluster
from support.kube.documents import gateway, gateway_class, route, service
from support.kube.operator_process import OperatorProcess
from varnish_gateway.kube.client import Client
from varnish_gateway.kube.resources import RESOURCES

NAMESPACE, GATEWAY, CLASS = "bench", "gw", "varnish"
WRITERS = 32


class Site:
    """One API server and its operator, which runs inside ``running``."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.directory = directory
        self.cluster = Cluster(directory)
        self.operator: OperatorProcess

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        self.cluster.start()
        try:
            self.cluster.create_namespace(NAMESPACE)
            self.operator = OperatorProcess(self.cluster, self.directory, class_name=CLASS).start()
            try:
                yield
            finally:
                self.operator.stop()
        finally:
            self.cluster.stop()

    async def set_up(self, client: Client, routes: int) -> None:
        """Create a Gateway, and routes with one Service each."""
        for document in (gateway_class(CLASS), gateway(NAMESPACE, GATEWAY, CLASS)):
            await client.create(document, manager="bench")
        await self.add(client, range(routes), service)
        await self.add(client, range(routes), lambda *names: route(*names, GATEWAY))
        await asyncio.to_thread(self.operator.wait_idle)

    async def add(self, client: Client, numbers: range, make: Callable[[str, str], dict[str, Any]]) -> None:
        """Create an object for each number, as fast as the API server accepts them."""
        left = iter(numbers)

        async def write() -> None:
            for number in left:
                await client.create(make(NAMESPACE, name(number)), manager="bench")

        await asyncio.gather(*(write() for _ in range(WRITERS)))

    def cpu_seconds(self) -> float:
        """Return the CPU time of the operator so far, all threads together."""
        threads = Path(f"/proc/{self.operator.pid}/task").iterdir()
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9

    def megabytes(self) -> float:
        """Return the resident memory of the operator."""
        status = Path(f"/proc/{self.operator.pid}/status").read_text()
        return round(int(status.partition("VmRSS:")[2].split()[0]) / 1024, 1)


def name(number: int) -> str:
    return f"r{number:05}"


class Sightings:
    """Watches kinds of objects in the namespace and records when the event of a change arrives."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._waiting: list[tuple[Callable[[dict[str, Any]], bool], asyncio.Future[float]]] = []

    @contextlib.asynccontextmanager
    async def of(self, *kinds: str) -> AsyncIterator["Sightings"]:
        tasks = [asyncio.create_task(self._watch(kind)) for kind in kinds]
        await asyncio.sleep(0.5)  # the watches need a moment to connect
        try:
            yield self
        finally:
            for task in tasks:
                task.cancel()

    def when(self, matches: Callable[[dict[str, Any]], bool]) -> "asyncio.Future[float]":
        """Return a future for the time at which the event of a matching object arrives."""
        arrival: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._waiting.append((matches, arrival))
        return arrival

    async def _watch(self, kind: str) -> None:
        path = RESOURCES[kind].path(NAMESPACE)
        listed = msgspec.json.decode(await self._client.read(f"{path}?limit=1"))
        start = f"{path}?watch=1&resourceVersion={listed['metadata']['resourceVersion']}"
        async for lines in self._client.lines(start, silence=600):
            now = time.perf_counter()
            for line in lines:
                self._record(msgspec.json.decode(line)["object"], now)

    def _record(self, found: dict[str, Any], now: float) -> None:
        for matches, arrival in self._waiting:
            if not arrival.done() and matches(found):
                arrival.set_result(now)
        self._waiting = [(matches, arrival) for matches, arrival in self._waiting if not arrival.done()]


__all__ = ["GATEWAY", "NAMESPACE", "Sightings", "Site", "name", "route", "service"]
