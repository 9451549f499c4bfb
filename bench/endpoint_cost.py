"""Measure how long the change of one endpoint among 5,000 Services takes to reach traffic.

The setup is a real API server, a chaperone in cluster mode with its own ServiceAccount, and varnishd
with ghost. The time runs from the watch event of the new EndpointSlice, as an independent watcher
receives it, to the first response of the other origin. A client sends requests without a pause, so
the figure includes the duration of one response.
"""

import asyncio
import contextlib
import http.client
import statistics
import time
from pathlib import Path

import lab
from site_of_routes import WRITERS, Sightings

from cluster.apiserver.server import Cluster
from support.kube.pods.chaperone_process import ChaperoneProcess, ProvisionedGateway, pod_address
from varnish_gateway.ir import wire
from varnish_gateway.kube.client import Client

SERVICES, SHARDS = 5_000, 128
NAMESPACE = "bench"


def measure(changes: int) -> dict[str, object]:
    """Return the milliseconds from watch event to traffic."""
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(lab.open_directory())
        address = stack.enter_context(pod_address())
        origins = [
            wire.Endpoint(
                address=address, port=stack.enter_context(lab.origin(directory / name, body=name, host=address))
            )
            for name in ("blue", "green")
        ]
        (directory / "cluster").mkdir()
        cluster = Cluster(directory / "cluster").start()
        stack.callback(cluster.stop)
        cluster.create_namespace(NAMESPACE)
        taken = asyncio.run(_measure(cluster, directory, origins, changes))
    return {
        "milliseconds": [round(ms, 2) for ms in taken],
        "median ms among 5,000 Services": round(statistics.median(taken), 2),
    }


async def _measure(cluster: Cluster, directory: Path, origins: list[wire.Endpoint], changes: int) -> list[float]:
    gateway = ProvisionedGateway(cluster, NAMESPACE)
    token = gateway.grant(shards=SHARDS)
    gateway.write(*(f"{NAMESPACE}/{_name(number)}" for number in range(SERVICES)), shards=SHARDS)
    async with cluster.client() as client:
        await _write_slices(client, origins[0])
        chaperone = ChaperoneProcess(gateway, token, directory)
        async with chaperone.running(), Sightings(client).of("EndpointSlice") as watcher:
            await asyncio.to_thread(_request_until, chaperone.port, _name(SERVICES - 1), "blue")
            return [
                await _switch(gateway, chaperone, watcher, (turn * 487) % SERVICES, origins[1])
                for turn in range(changes)
            ]


async def _write_slices(client: Client, endpoint: wire.Endpoint) -> None:
    left = iter(range(SERVICES))

    async def write() -> None:
        for number in left:
            name = _name(number)
            document = {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {
                    "name": name,
                    "namespace": NAMESPACE,
                    "labels": {"kubernetes.io/service-name": name},
                },
                "addressType": "IPv4",
                "ports": [{"name": "", "port": endpoint.port}],
                "endpoints": [{"addresses": [endpoint.address], "conditions": {"ready": True}}],
            }
            await client.create(document, manager="test")

    await asyncio.gather(*(write() for _ in range(WRITERS)))


async def _switch(
    gateway: ProvisionedGateway, chaperone: ChaperoneProcess, watcher: Sightings, number: int, endpoint: wire.Endpoint
) -> float:
    """Point a Service to the other origin; return the milliseconds from the watch event to its first response."""
    name = _name(number)
    observed = watcher.when(lambda found: found["metadata"]["name"] == name)
    answered = asyncio.create_task(asyncio.to_thread(_request_until, chaperone.port, name, "green"))
    await asyncio.to_thread(gateway.write_endpoints, f"{NAMESPACE}/{name}", endpoint)
    return (await answered - await observed) * 1000


def _request_until(port: int, host: str, expected: str) -> float:
    """Send requests until the origin ``expected`` answers; return the time of that response."""
    deadline = time.perf_counter() + 60
    while time.perf_counter() < deadline:
        with contextlib.suppress(OSError), contextlib.closing(http.client.HTTPConnection("127.0.0.1", port)) as link:
            while time.perf_counter() < deadline:
                link.request("GET", "/", headers={"Host": host})
                if link.getresponse().read().decode() == expected:
                    return time.perf_counter()
    raise RuntimeError(f"{expected} never answered for {host}")


def _name(number: int) -> str:
    return f"s{number:05}"
