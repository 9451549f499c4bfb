"""Measure what hostile tenants and clients do to ordinary traffic on a Gateway that they share.

Ordinary traffic is a steady load: passes and hits, with and without TLS, at a rate that the machine
serves easily. Its times count from the moment a request is due, so that no stall stays hidden. Beside
it run hostile clients and edits, or well-behaved ones that offer the same load. Runs alternate, and each
has a gateway of its own: what one leaves behind doesn't disturb the next. The gateway has one core,
clients and origins the other.
"""

import asyncio
import contextlib
import json
import os
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import lab

from support.hostile.clients import silent_origin, websocket_origin
from support.hostile.crowd import THREATS, CrowdOrder
from support.hostile.load import LoadOrder, LoadReport, OpenLoop, cycle
from support.hostile.site import HostileSite, OriginPorts
from support.http.client import ask
from support.vgw_process import vgw_run
from support.waiting import until_async

EVERYTHING = "everything"
RATE, WARM_UP_SECONDS, START_SECONDS = 150, 2, 2
WORKERS, CLIENTS, EVERY_SECONDS = 300, 400, 5
"""varnishd's worker threads; how many clients hold connections in each of three ways, which suffices to occupy all
workers; and how often each opens another connection."""


@dataclass(frozen=True)
class Run:
    """What one run measured."""

    load: LoadReport
    visits: dict[str, Counter[str]]


def measure(rounds: int, seconds: int) -> dict[str, object]:
    """Return the p99 of ordinary traffic beside hostile and beside well-behaved clients, and its errors.

    A run takes so many seconds, and twice as many with everything at once.
    """
    affinity = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {lab.LOAD_CORE})
    try:
        found = {
            name: _compared([_pair(threats, seconds if len(threats) == 1 else 2 * seconds) for _ in range(rounds)])
            for name, threats in {EVERYTHING: THREATS, **{name: (name,) for name in THREATS}}.items()
        }
    finally:
        os.sched_setaffinity(0, affinity)
    return {**found, "errors": sum(each["errors"] for each in found.values())}


def _pair(threats: Sequence[str], seconds: int) -> tuple[Run, Run]:
    """Measure beside well-behaved clients, then beside hostile ones."""
    behaved, hostile = (asyncio.run(_run(threats, seconds, is_hostile=is_hostile)) for is_hostile in (False, True))
    return behaved, hostile


def _compared(pairs: Sequence[tuple[Run, Run]]) -> dict[str, Any]:
    behaved, hostile = zip(*pairs, strict=True)
    medians = [statistics.median(run.load.percentile(99) for run in runs) for runs in (behaved, hostile)]
    visits: dict[str, Counter[str]] = {}
    for run in hostile:
        for name, outcomes in run.visits.items():
            visits[name] = visits.get(name, Counter()) + outcomes
    return {
        "p99 ms beside well-behaved": round(medians[0], 2),
        "p99 ms beside hostile": round(medians[1], 2),
        "hostile / well-behaved": round(medians[1] / medians[0], 2),
        "p99 ms of each run": [[round(run.load.percentile(99), 2) for run in runs] for runs in (behaved, hostile)],
        "requests": sum(len(run.load.milliseconds) for run in hostile),
        "errors": sum(run.load.errors.total() for run in hostile),
        "kinds of errors": sum((run.load.errors for run in hostile), Counter()),
        "errors beside well-behaved": sum(run.load.errors.total() for run in behaved),
        "hostile visits": visits,
    }


async def _run(threats: Sequence[str], seconds: int, *, is_hostile: bool) -> Run:
    async with contextlib.AsyncExitStack() as stack:
        directory = stack.enter_context(lab.open_directory())
        good = stack.enter_context(lab.origin(directory / "origin"))
        silent = await stack.enter_async_context(silent_origin())
        websocket = await stack.enter_async_context(websocket_origin())
        files = directory / "files"
        files.mkdir()
        site = HostileSite(files, OriginPorts(good, silent, websocket), WORKERS)
        site.write_all()
        gateway = await stack.enter_async_context(vgw_run(files, options=("--health-addr", f"127.0.0.1:{site.health}")))
        os.sched_setaffinity(gateway.process.pid, {lab.MEASURED_CORE})  # and what it starts
        await until_async(lambda: _is_ready(site), "the gateway is ready", 60)
        warm = await OpenLoop(site.http, site.https, cycle()).run(RATE, WARM_UP_SECONDS)
        if warm.errors:
            raise RuntimeError(f"ordinary traffic alone had errors: {warm.errors}")
        start = time.perf_counter() + START_SECONDS
        crowd = CrowdOrder(
            site=site,
            threats=threats,
            is_hostile=is_hostile,
            clients=CLIENTS,
            every=EVERY_SECONDS,
            start=start,
            seconds=seconds,
        )
        load = LoadOrder(http=site.http, https=site.https, rate=RATE, start=start, seconds=seconds)
        report, visits = await asyncio.gather(_output(load.words), _output(crowd.words))
        return Run(
            LoadReport(report["milliseconds"], Counter(report["errors"])),
            {name: Counter(outcomes) for name, outcomes in visits.items()},
        )


async def _is_ready(site: HostileSite) -> bool:
    return (await ask(site.health, "gateway", "/ready")).status == 200


async def _output(words: Sequence[str]) -> Any:
    """Run a command; return the JSON that it writes."""
    path = os.pathsep.join(str(lab.ROOT / part) for part in ("src", "tests", "tools"))
    process = await asyncio.create_subprocess_exec(
        *words, stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": path}
    )
    output, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"{words[:3]} failed with status {process.returncode}")
    return json.loads(output)
