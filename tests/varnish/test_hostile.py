"""Hostile tenants and clients beside ordinary traffic on a Gateway that they share: the benchmark in short.

It measures no times. Each threat has to show that it was there: by how its visits ended, and by what the
gateway counted.
"""

import asyncio
import re
import time
from pathlib import Path

import pytest

from support.hostile.clients import HELD, silent_origin, websocket_origin
from support.hostile.crowd import THREATS, CrowdOrder, carry_out
from support.hostile.load import OpenLoop, cycle
from support.hostile.site import HOSTILE, HostileSite, OriginPorts
from support.http.client import ask
from support.vgw_process import vgw_run
from varnish_gateway.dataplane.tls.budget import AT_ONCE

WORKERS, CLIENTS = 120, 80
RATE, SECONDS, EVERY = 40, 8, 3


async def total(site: HostileSite, metric: str) -> float:
    """Return the sum of a metric."""
    page = (await ask(site.health, "gateway", "/metrics")).body.decode()
    return sum(float(value) for value in re.findall(rf"^{re.escape(metric)}(?:{{[^}}]*}})? (\S+)$", page, re.MULTILINE))


@pytest.mark.timeout(120)
async def test_hostile_tenants_and_clients_cause_no_error_of_ordinary_traffic(workdir: Path, origins):
    async with silent_origin() as silent, websocket_origin() as websocket:
        site = HostileSite(workdir, OriginPorts(await origins.port("good"), silent, websocket), WORKERS)
        site.write_all()
        async with vgw_run(workdir, options=("--health-addr", f"127.0.0.1:{site.health}")) as gateway:
            await gateway.wait_for_programmed()
            assert (await ask(site.health, "gateway", "/ready")).status == 200
            start = time.perf_counter()
            order = CrowdOrder(
                site=site,
                threats=THREATS,
                is_hostile=True,
                clients=CLIENTS,
                every=EVERY,
                start=start,
                seconds=SECONDS,
            )
            load = OpenLoop(site.http, site.https, cycle())
            ended, report = await asyncio.gather(carry_out(order), load.run(RATE, SECONDS))
            logged = "\n".join(record["message"] for record in gateway.log)
            for reason in ("more than the budget", "InvalidCertificateRef"):
                assert reason in logged
            assert re.search(r"http-\d+ is not open: it opens at ", logged), "port flips were there, and had to wait"
            assert "restarting varnishd" not in logged
            assert await total(site, "vgw_haproxy_reloads_total") <= AT_ONCE
            assert report.errors == {}
            assert len(report.milliseconds) == RATE * SECONDS
            assert ended["regexes"]["431"]
            assert ended["loops"]["508"]
            for threat in ("slow backend", "slow uploads", "idle WebSockets"):
                assert ended[threat][HELD]
                assert ended[threat]["503"]
            assert await total(site, "vgw_share_rejections_total") > 0
            assert await total(site, "vgw_regex_budget_exceeded_total") > 0
            assert await total(site, f'vgw_route_loops_total{{gateway="infra/shared",route="{HOSTILE}/itself"}}') > 0
