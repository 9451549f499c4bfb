"""All metrics of a running data plane.

In:   a data plane, the counters of its events, and what serves.
Out:  lines for /metrics; without ghost's counters while ghost does not answer.
"""

from typing import Any

from varnish_gateway import errors
from varnish_gateway.dataplane.change import ServingState
from varnish_gateway.dataplane.dataplane import DataPlane
from varnish_gateway.dataplane.ghost.loopback import get
from varnish_gateway.dataplane.jsontext import read_json
from varnish_gateway.dataplane.metrics import EventCounters, page

COUNTERS_SECONDS = 2.0


async def scrape(data_plane: DataPlane, counters: EventCounters, served: ServingState) -> list[str]:
    """Return the lines of a data plane and of its TLS terminator."""
    text = page(counters, served, await _ghost_counters(data_plane))
    return [*text.splitlines(), *await data_plane.terminator.metrics()]


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
