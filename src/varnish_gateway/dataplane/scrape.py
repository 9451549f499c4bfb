"""All metrics of a running data plane.

In:   a data plane, the counters of its events, what chooses among its cached routes, and what serves.
Out:  lines for /metrics; without the counters of ghost and varnishd while these don't answer.
"""

from typing import Any

from varnish_gateway import errors
from varnish_gateway.dataplane.change import ServingState
from varnish_gateway.dataplane.dataplane import DataPlane
from varnish_gateway.dataplane.ghost.loopback import get
from varnish_gateway.dataplane.ghost.metrics import CachedRoutes, eviction_lines
from varnish_gateway.dataplane.jsontext import read_json
from varnish_gateway.dataplane.metrics import EventCounters, page
from varnish_gateway.dataplane.varnish.counters import read_counters
from varnish_gateway.dataplane.varnish.metrics import cache_lines

COUNTERS_SECONDS = 2.0


async def scrape(
    data_plane: DataPlane, counters: EventCounters, routes: CachedRoutes, served: ServingState
) -> list[str]:
    """Return the lines of a data plane and of its TLS terminator."""
    ghost = await _ghost_counters(data_plane)
    lines = page(counters, served, ghost).splitlines()
    if ghost is not None:
        lines += [*routes.lines(ghost), *eviction_lines(ghost)]
    return [*lines, *await _of_the_cache(data_plane), *await data_plane.terminator.metrics()]


async def _of_the_cache(data_plane: DataPlane) -> list[str]:
    """Return the lines of varnishd's stores; none where no worker has any."""
    if not data_plane.served.ready:
        return []
    counters = await read_counters(data_plane.supervisor.varnish_dir)
    return [] if counters is None else [*cache_lines(counters)]


async def _ghost_counters(data_plane: DataPlane) -> dict[str, Any] | None:
    """Return ghost's counters, None where there are none (no worker, a VCL without ghost)."""
    if not data_plane.served.ready:
        return None
    port = data_plane.supervisor.reload_port
    try:
        status, _, body = await get(port, "/.varnish-ghost/counters", COUNTERS_SECONDS)
        if status != 200:
            return None
        return read_json(body, dict[str, Any], "counters")
    except (OSError, errors.BadDocument):
        return None
