"""Run workers only while this operator leads.

In:   an Election, or AlwaysLeading where there is only one operator.
Out:  workers that run while this operator leads. When it loses the lease, their jobs are cancelled.
"""

import asyncio
import contextlib
import logging
from typing import NoReturn, Protocol

from varnish_gateway.operator.execute.workers import Workers

log = logging.getLogger(__name__)


class Leadership(Protocol):
    """Whether this operator leads."""

    def holds(self) -> bool:
        """Whether a write may start now."""

    async def wait(self, leading: bool) -> None:
        """Return once this operator leads, or no longer leads."""

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


async def work_while_leading(leadership: Leadership, workers: Workers) -> NoReturn:
    """Run the workers whenever this operator leads."""
    while True:
        await leadership.wait(leading=True)
        log.info("this operator leads: comparing every object with its desired state")
        working = asyncio.create_task(workers.run())
        lost = asyncio.create_task(leadership.wait(leading=False))
        try:
            await asyncio.wait({working, lost}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                working.result()  # a bug of ours: raise it
            log.warning("this operator lost its lease and stops writing")
        finally:
            for task in (working, lost):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
