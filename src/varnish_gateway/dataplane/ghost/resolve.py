"""Resolve the host names of ExternalName Services.

In:   the host names to follow.
Out:  calls of ``on_change`` with the addresses of a name whenever they differ from the last ones.
Each name is resolved every REFRESH_SECONDS. A name that can't be resolved keeps its last good
addresses and is retried sooner.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Iterable, Mapping

REFRESH_SECONDS = 30.0
RETRY_SECONDS = 2.0

log = logging.getLogger(__name__)


class Resolver:
    """Runs one task per host name."""

    def __init__(self, on_change: Callable[[Mapping[str, tuple[str, ...]]], None]) -> None:
        self._on_change = on_change
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def follow(self, hosts: Iterable[str]) -> None:
        """Follow exactly these host names."""
        followed = set(hosts)
        for host in self._tasks.keys() - followed:
            self._tasks.pop(host).cancel()
        for host in followed - self._tasks.keys():
            self._tasks[host] = asyncio.create_task(self._follow(host))

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _follow(self, host: str) -> None:
        last: tuple[str, ...] | None = None
        while True:
            try:
                addresses = await lookup(host)
            except (OSError, UnicodeError) as error:
                log.warning("can't resolve %s: %s", host, error, extra={"host": host})
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if addresses != last:
                last = addresses
                self._on_change({host: addresses})
            await asyncio.sleep(REFRESH_SECONDS)


async def lookup(host: str) -> tuple[str, ...]:
    """Return the addresses of host, sorted; OSError if there are none, UnicodeError if it is no host name."""
    found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return tuple(sorted({str(entry[4][0]) for entry in found}))
