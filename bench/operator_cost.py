"""Measure what the change of a route costs the operator, with 50 and with 5,000 routes.

Two real API servers run at the same time and the measurement alternates between them. The time runs
from the watch event of the route's new version to that of the shard that contains it, as an
independent watcher receives them. CPU time is that of the operator's process. A burst, memory and
20,000 routes follow.
"""

import asyncio
import contextlib
import statistics
import time
from typing import Any

import lab
import msgspec
from site_of_routes import GATEWAY, NAMESPACE, Sightings, Site, name, route, service

from varnish_gateway.kube.client import Client
from varnish_gateway.kube.resources import RESOURCES

FEW, MANY, BURST, HUGE = 50, 5_000, 1_000, 20_000
CPU_BATCH = 200
GROWTH_SECONDS = 300
"""On a slow machine the API server takes minutes to store 14,000 statuses."""


def measure(changes: int, *, huge: int = HUGE) -> dict[str, object]:
    """Return medians in milliseconds, CPU per change, memory, and the figures of a burst."""
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(lab.open_directory())
        few, many = Site(directory / "few"), Site(directory / "many")
        for site in (few, many):
            stack.enter_context(site.running())
        return asyncio.run(_measure(few, many, changes, huge))


async def _measure(few: Site, many: Site, changes: int, huge: int) -> dict[str, object]:
    async with few.cluster.client() as near, many.cluster.client() as far:
        await few.set_up(near, FEW)
        await many.set_up(far, MANY)
        results: dict[str, Any] = {"memory at 5,000 routes, MB": many.megabytes()}
        results |= await _take_turns((few, near, FEW), (many, far, MANY), changes)
        results |= await _burst(many, far)
        results |= await _grow(many, far, huge, changes // 4)
    return results


async def _take_turns(few: tuple[Site, Client, int], many: tuple[Site, Client, int], changes: int) -> dict[str, object]:
    taken: dict[int, list[tuple[float, float]]] = {FEW: [], MANY: []}
    cpu: dict[int, float] = {FEW: 0.0, MANY: 0.0}
    async with contextlib.AsyncExitStack() as stack:
        watchers = {
            count: await stack.enter_async_context(Sightings(client).of("HTTPRoute", "ConfigMap"))
            for _, client, count in (few, many)
        }
        for turn in range(changes):
            for _, client, count in (few, many):
                taken[count].append(await change_route(client, watchers[count], (turn * 487) % count, turn))
        for site, client, count in (few, many):
            cpu[count] = await _cpu(site, client, watchers[count], count)
    shard = {count: statistics.median(ms for ms, _ in one) for count, one in taken.items()}
    whole = {count: statistics.median(ms for _, ms in one) for count, one in taken.items()}
    return {
        "milliseconds among 50": [round(ms, 2) for ms, _ in taken[FEW]],
        "milliseconds among 5,000": [round(ms, 2) for ms, _ in taken[MANY]],
        "median ms among 50": round(shard[FEW], 2),
        "median ms among 5,000": round(shard[MANY], 2),
        "5,000 / 50": round(shard[MANY] / shard[FEW], 2),
        "median ms until readable among 50": round(whole[FEW], 2),
        "median ms until readable among 5,000": round(whole[MANY], 2),
        "CPU ms per change among 50": round(cpu[FEW], 2),
        "CPU ms per change among 5,000": round(cpu[MANY], 2),
        "CPU, 5,000 / 50": round(cpu[MANY] / cpu[FEW], 2),
    }


async def change_route(client: Client, watcher: Sightings, number: int, turn: int) -> tuple[float, float]:
    """Change a route; return the milliseconds to the shard that contains it, and to the index that names the shard."""
    mark = f"turn-{turn}-{number}.example.com"
    observed = watcher.when(lambda found: found["kind"] == "HTTPRoute" and mark in found["spec"].get("hostnames", ()))
    written = watcher.when(lambda found: mark in found.get("data", {}).get("routing.json", ""))
    shards = await _index_of(client)
    readable = watcher.when(
        lambda found: (
            found["metadata"]["name"] == f"{GATEWAY}-vcl"
            and (found["data"].get("shards.json", "") != shards or mark in found["data"].get("routing.json", ""))
        )
    )
    patch = {"spec": {"hostnames": [mark]}}
    await client.patch(RESOURCES["HTTPRoute"], name(number), patch, namespace=NAMESPACE, manager="bench")
    async with asyncio.timeout(30):
        began, shard, index = await observed, await written, await readable
    return (shard - began) * 1000, (max(shard, index) - began) * 1000


async def _index_of(client: Client) -> str:
    found = msgspec.json.decode(await client.get(RESOURCES["ConfigMap"], f"{GATEWAY}-vcl", namespace=NAMESPACE))
    return str(found["data"].get("shards.json", ""))


async def _cpu(site: Site, client: Client, watcher: Sightings, count: int) -> float:
    """Return the operator's CPU milliseconds per change, including statuses; changes don't overlap."""
    await asyncio.to_thread(site.operator.wait_idle)
    before = site.cpu_seconds()
    for turn in range(CPU_BATCH):
        await change_route(client, watcher, (turn * 331) % count, 10_000 + turn)
    await asyncio.to_thread(site.operator.wait_idle)
    return (site.cpu_seconds() - before) * 1000 / CPU_BATCH


async def _burst(site: Site, client: Client) -> dict[str, object]:
    """Create many routes at once; return when attachedRoutes was correct, and the cost."""
    numbers = range(MANY, MANY + BURST)
    await site.add(client, numbers, service)
    await asyncio.to_thread(site.operator.wait_idle)
    writes, cpu = site.operator.writes(), site.cpu_seconds()
    began = time.perf_counter()
    await site.add(client, numbers, lambda *names: route(*names, GATEWAY))
    last = time.perf_counter()
    right = await _until_attached(client, MANY + BURST)
    await asyncio.to_thread(site.operator.wait_idle)
    written = site.operator.writes()
    return {
        "burst: s to create 1,000 routes": round(last - began, 2),
        "burst: s from the last to the right count": round(max(0.0, right - last), 3),
        "burst: Gateway status writes": written["Gateway status"] - writes["Gateway status"],
        "burst: shard writes": written["ConfigMap apply"] - writes["ConfigMap apply"],
        "burst: CPU s": round(site.cpu_seconds() - cpu, 2),
        "burst: s until every status is written": round(time.perf_counter() - last, 2),
    }


async def _until_attached(client: Client, count: int) -> float:
    deadline = time.perf_counter() + 120
    while time.perf_counter() < deadline:
        found = msgspec.json.decode(await client.get(RESOURCES["Gateway"], GATEWAY, namespace=NAMESPACE))
        if found.get("status", {}).get("listeners", [{}])[0].get("attachedRoutes") == count:
            return time.perf_counter()
    raise RuntimeError(f"attachedRoutes never became {count}")


async def _grow(site: Site, client: Client, huge: int, changes: int) -> dict[str, object]:
    """Grow to ``huge`` routes; return the memory, and the cost of a change among them."""
    numbers = range(MANY + BURST, huge)
    await site.add(client, numbers, service)
    await site.add(client, numbers, lambda *names: route(*names, GATEWAY))
    await _until_attached(client, huge)
    await asyncio.to_thread(site.operator.wait_idle, GROWTH_SECONDS)
    shards = len(msgspec.json.decode(await _index_of(client))["shards"])
    async with Sightings(client).of("HTTPRoute", "ConfigMap") as watcher:
        taken = [
            await change_route(client, watcher, (turn * 1999) % huge, 50_000 + turn) for turn in range(max(changes, 5))
        ]
    return {
        f"memory at {huge:,} routes, MB": site.megabytes(),
        f"shards at {huge:,} routes": shards,
        f"median ms among {huge:,}": round(statistics.median(ms for ms, _ in taken), 2),
    }
