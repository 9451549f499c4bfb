"""Measure how long a real cluster takes to serve a new route: ``python -m cluster bench``.

In:   a cluster with the operator installed; run this where test clients run.
Out:  figures of the time from the API server's response to the creation of a route until the first 200.
      Routes are created one after another, each with its own hostname.
"""

import argparse
import asyncio
import contextlib
import os
import statistics
import sys
from collections import Counter

from cluster.api import Api
from support.http.traffic import Target, probe
from support.kube.cluster_harness import ClusterHarness
from support.kube.documents import route

SHARE = 100


async def measure(harness: ClusterHarness, address: str, count: int) -> tuple[list[float], Counter[int]]:
    """Return the milliseconds that each route took, and how often each status was received."""
    took, received = [], Counter[int]()
    for number in range(count):
        host = f"route-{number}.test"
        harness.create(route(harness.namespace, f"route-{number}", "gateway", host=host, backend={"name": "echo"}))
        statuses, seconds = await probe(Target(address, host))
        took.append(seconds * 1000)
        received += statuses
        if number % SHARE == SHARE - 1:
            print(
                f"{number + 1} of {count}: median of the last {SHARE} {statistics.median(took[-SHARE:]):.1f} ms",
                flush=True,
            )
    return took, received


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure how long a new route takes to be served.")
    parser.add_argument("--routes", type=int, default=500)
    count = parser.parse_args().routes
    name = f"propagation-{os.getpid()}"
    with contextlib.closing(Api()) as api, ClusterHarness.in_namespace(api, name) as harness:
        harness.echo("echo")
        took, received = asyncio.run(measure(harness, harness.gateway(), count))
    first, last = statistics.median(took[:SHARE]), statistics.median(took[-SHARE:])
    shares = statistics.quantiles(took, n=100)
    figures = {"p50": shares[49], "p90": shares[89], "p99": shares[98], "max": max(took)}
    print(f"{count} routes:", ", ".join(f"{name} {value:.1f} ms" for name, value in figures.items()))
    print(f"median of the first {SHARE} {first:.1f} ms, of the last {last:.1f} ms: {last / first:.2f} times")
    print(f"statuses: {dict(received)}")
    return 0 if set(received) <= {200, 404} else 1


if __name__ == "__main__":
    sys.exit(main())
