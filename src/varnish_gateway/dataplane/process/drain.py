"""Wait until no client is connected.

In:   the ports that varnishd serves.
Out:  a return, when no connection has been seen for a while or the time is over.
It reads the kernel's own table, which lists connections that varnishd's counters miss.
"""

import asyncio
import time
from collections.abc import Iterable
from pathlib import Path

ESTABLISHED = "01"
POLL_SECONDS = 0.1
QUIET_SHARE = 5  # a fifth of the drain time without a connection is quiet enough
LONGEST_QUIET_SECONDS = 3.0
TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


async def until_idle(ports: set[int], seconds: float) -> None:
    """Return when the ports have been quiet: new clients may still come for a moment after we went unready."""
    quiet = min(seconds / QUIET_SHARE, LONGEST_QUIET_SECONDS)
    now = time.monotonic()
    end, last_seen = now + seconds, now
    while (now := time.monotonic()) < end:
        if connected_ports() & ports:
            last_seen = now
        elif now - last_seen >= quiet:
            return
        await asyncio.sleep(min(POLL_SECONDS, quiet))


def connected_ports() -> set[int]:
    """Return the local ports of every established connection of this network namespace."""
    return {port for table in TABLES if table.exists() for port in local_ports(table.read_text().splitlines()[1:])}


def local_ports(rows: Iterable[str]) -> Iterable[int]:
    """Parse rows of /proc/net/tcp: number, local address, remote address, state and more."""
    for row in rows:
        _, local, _, state, *_ = row.split()
        if state == ESTABLISHED:
            yield int(local.rpartition(":")[2], 16)
