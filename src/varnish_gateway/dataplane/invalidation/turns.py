"""Who invalidates next, of many clients at once.

In:   the names of clients that come and go.
Out:  a turn for each, after a wait if need be. Each client has few turns at once and a queue of its own, so that
one can't keep the others from theirs.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

PRESENT = 64
"""Requests of one client that have a turn or wait for one."""
AT_ONCE = 2
"""Of these, how many may hold a body in memory."""
CARRIED_OUT = 4
"""Invalidations of all clients that ghost carries out at once; each holds a thread of varnishd."""


class Turns:
    """``present`` and ``at_once`` are limits for each client, ``carried_out`` is one for all of them."""

    def __init__(self, present: int = PRESENT, at_once: int = AT_ONCE, carried_out: int = CARRIED_OUT) -> None:
        self._limit, self._at_once = present, at_once
        self._present: dict[str, int] = {}
        self._own: dict[str, asyncio.Semaphore] = {}
        self.carried_out = asyncio.Semaphore(carried_out)

    def is_full(self, client: str) -> bool:
        """Whether a client has as many requests here as it may have."""
        return self._present.get(client, 0) >= self._limit

    @contextlib.asynccontextmanager
    async def turn(self, client: str) -> AsyncIterator[None]:
        """Wait for a turn of this client and hold it."""
        self._present[client] = self._present.get(client, 0) + 1
        try:
            async with self._own.setdefault(client, asyncio.Semaphore(self._at_once)):
                yield
        finally:
            self._present[client] -= 1
            if not self._present[client]:
                del self._present[client], self._own[client]
