"""Measure what hostile regular expressions cost others.

A route at the maximum of the CRD (128 matches, each with a path, 16 headers and 16 query parameters), and one that
takes its whole budget, change in turn, four times a second: the API server takes most of that time to store the former.
Meanwhile other routes change, and a client asks the operator for /healthz without a pause: its longest
wait is the longest hold of the event loop. regex_requests.py measures what such patterns cost a request.
"""

import asyncio
import contextlib
import http.client
import statistics
import threading
import time
from collections.abc import Iterator
from typing import Any

import lab
import regex_requests
from operator_cost import change_route
from site_of_routes import GATEWAY, NAMESPACE, Sightings, Site, route

from varnish_gateway.kube.client import Client
from varnish_gateway.kube.resources import RESOURCES

ROUTES = 50
PAUSE_SECONDS = 0.25
TENANT = "hostile"
REGEX = "RegularExpression"


def measure(changes: int, requests: int) -> dict[str, object]:
    """Return milliseconds: of holds and of other changes, and of CPU for a request."""
    with lab.open_directory() as directory:
        site = Site(directory / "site")
        with site.running():
            found = asyncio.run(_measure_routes(site, changes))
        return found | regex_requests.measure(directory, requests)


# -- routes ----------------------------------------------------------------------------


def _at_maximum(turn: int) -> list[dict[str, Any]]:
    """Return rules with as many patterns as the CRD allows."""

    def pattern(number: int) -> str:
        return f".*[a-z]{{1,200}}x{turn}-{number}"

    def a_match(number: int) -> dict[str, Any]:
        first = 33 * number
        return {
            "path": {"type": REGEX, "value": f"/{pattern(first)}"},
            "headers": [{"type": REGEX, "name": f"h{n}", "value": pattern(first + 1 + n)} for n in range(16)],
            "queryParams": [{"type": REGEX, "name": f"q{n}", "value": pattern(first + 17 + n)} for n in range(16)],
        }

    return [{"matches": [a_match(8 * rule + n) for n in range(8)]} for rule in range(16)]


def _at_budget(turn: int) -> list[dict[str, Any]]:
    """Return rules whose patterns take long, but are within the budget of a route."""
    patterns = [f"/.*[a-z]{{1,200}}y{turn}-{number}" for number in range(5)]
    return [{"matches": [{"path": {"type": REGEX, "value": pattern}} for pattern in patterns]}]


async def _measure_routes(site: Site, changes: int) -> dict[str, object]:
    async with site.cluster.client() as client:
        await site.set_up(client, ROUTES)
        await asyncio.to_thread(site.cluster.create_namespace, TENANT)
        document = route(TENANT, TENANT, GATEWAY)
        document["spec"]["parentRefs"][0]["namespace"] = NAMESPACE
        await client.create(document, manager="bench")
        await asyncio.to_thread(site.operator.wait_idle)
        probe = _Probe(site.operator.health_port)
        async with Sightings(client).of("HTTPRoute", "ConfigMap") as watcher:
            with probe.running():
                hostile = asyncio.create_task(_attack(client))
                taken = [(await change_route(client, watcher, turn % ROUTES, turn))[0] for turn in range(changes)]
                hostile.cancel()
    return {
        "longest hold of the event loop, ms": round(max(probe.milliseconds), 1),
        "median ms of other changes": round(statistics.median(taken), 2),
        "95th percentile ms of other changes": round(statistics.quantiles(taken, n=20)[-1], 2),
    }


async def _attack(client: Client) -> None:
    """Change the hostile route again and again."""
    turn = 0
    while True:
        turn += 1
        rules = (_at_maximum if turn % 2 else _at_budget)(turn)
        patch = {"spec": {"rules": rules}}
        await client.patch(RESOURCES["HTTPRoute"], TENANT, patch, namespace=TENANT, manager="bench")
        await asyncio.sleep(PAUSE_SECONDS)


class _Probe:
    """Asks for /healthz without a pause; ``milliseconds`` are what each answer took."""

    def __init__(self, port: int) -> None:
        self.milliseconds: list[float] = []
        self._port = port
        self._stopped = threading.Event()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            thread.join()

    def _run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        while not self._stopped.wait(0.001):
            began = time.perf_counter()
            connection.request("GET", "/healthz")
            connection.getresponse().read()
            self.milliseconds.append((time.perf_counter() - began) * 1000)
