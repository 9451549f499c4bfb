"""Changes of routes and backends under constant load cause no error."""

import asyncio
import itertools
from collections import Counter

import pytest

from support.http.traffic import Target, probe, traffic
from support.kube.cluster_harness import ClusterHarness
from support.kube.documents import route

ROUTES = 500
SWITCHES = 200
ROLLS = 10


def switched_to(harness: ClusterHarness, service: str) -> None:
    harness.put(route(harness.namespace, "route", "gateway", host="a.test", backend={"name": service}))


async def served(harness: ClusterHarness, service: str, host: str = "a.test") -> Target:
    """Have a Gateway with one route that works."""
    address = await asyncio.to_thread(harness.gateway)
    switched_to(harness, service)
    target = Target(address, host)
    await probe(target)
    return target


@pytest.mark.timeout(600)
async def test_new_route_answers_404_until_it_is_served(harness: ClusterHarness):
    """One after another; nothing but 404 comes before the first 200."""
    harness.echo("echo")
    address = harness.gateway()
    seen: Counter[int] = Counter()
    for number in range(ROUTES):
        host = f"route-{number}.test"
        harness.create(route(harness.namespace, f"route-{number}", "gateway", host=host, backend={"name": "echo"}))
        statuses, _ = await probe(Target(address, host))
        seen += statuses
    assert set(seen) <= {200, 404}, seen
    assert seen[200] == ROUTES


@pytest.mark.timeout(600)
async def test_route_switched_between_services_fails_no_request(harness: ClusterHarness):
    harness.echo("one")
    harness.echo("two")
    target = await served(harness, "one")
    async with traffic(target) as seen:
        for service in itertools.islice(itertools.cycle(["two", "one"]), SWITCHES):
            before = seen.services[service]
            await asyncio.to_thread(switched_to, harness, service)
            async with asyncio.timeout(30):
                while seen.services[service] == before:
                    await asyncio.sleep(0.005)
    assert not seen.failures
    assert set(seen.statuses) == {200}, seen.statuses


@pytest.mark.timeout(900)
async def test_rolling_backends_fail_no_request(harness: ClusterHarness):
    """Each time every pod of the Deployment is replaced by a new one."""
    harness.echo("echo", replicas=2)
    target = await served(harness, "echo")
    async with traffic(target) as seen:
        for turn in range(ROLLS):
            restarted = {"template": {"metadata": {"annotations": {"turn": str(turn)}}}}
            harness.api.merge(harness.path("Deployment", "echo"), {"spec": restarted})
            await asyncio.to_thread(harness.rolled_out, "echo")
    assert not seen.failures
    assert set(seen.statuses) == {200}, seen.statuses
    assert len(seen.pods) >= 2 * ROLLS
