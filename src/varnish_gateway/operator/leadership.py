"""Work only while this operator leads.

In:   an Election, or AlwaysLeading where there is only one operator.
Out:  workers that run while we lead. What they are at when the lease is lost is broken off.
"""

import asyncio
import contextlib
import logging
from typing import NoReturn, Protocol

from varnish_gateway.operator.execute.workers import Workers
from varnish_gateway.operator.plan.reconciler import Reconciler

log = logging.getLogger(__name__)


class Leadership(Protocol):
    """Who leads."""

    def holds(self) -> bool:
        """Whether a write may begin now."""

    async def wait(self, leading: bool) -> None:
        """Return once we lead, or do not lead any more."""

    async def run(self) -> None:
        """Take part in the election until cancelled."""


class AlwaysLeading:
    """The Leadership of the only operator there is."""

    def holds(self) -> bool:
        return True

    async def wait(self, leading: bool) -> None:
        if not leading:
            await asyncio.Event().wait()

    async def run(self) -> None:
        await asyncio.Event().wait()


async def while_leading(election: Leadership, reconciler: Reconciler, workers: Workers) -> NoReturn:
    """Work whenever this operator leads."""
    while True:
        await election.wait(leading=True)
        log.info("leading: comparing everything with what is wanted")
        reconciler.add_all()
        working = asyncio.create_task(workers.run())
        lost = asyncio.create_task(election.wait(leading=False))
        try:
            await asyncio.wait({working, lost}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                working.result()  # a bug of ours: raise it
            log.warning("the lease is lost: nothing is written any more")
        finally:
            for task in (working, lost):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
            reconciler.rest()
