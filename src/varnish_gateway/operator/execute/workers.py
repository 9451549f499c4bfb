"""Those who do the jobs, as long as this operator leads.

In:   the queue.
Out:  jobs done. One that fails is tried again, later and later; what a person has to correct
      is said on the Gateway and tried again when something about it changes, or after minutes.
      A bug of ours that one job meets is logged, and ends no other job. Nothing that is written
      waits for pods that are being asked.
"""

import asyncio
import logging
from collections import Counter
from typing import NoReturn

from varnish_gateway import errors
from varnish_gateway.operator.execute.objects import Report
from varnish_gateway.operator.execute.queue import Queue
from varnish_gateway.operator.plan.jobs import Job
from varnish_gateway.operator.plan.reconciler import Reconciler

AT_ONCE = 16
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 0.1, 5.0
STALE_SECONDS = 0.02
"""Somebody else wrote first and their change is on its way to us, or a Role that was just made is to the authorizer.
What is not found is gone, as we are about to hear, or the API server starts and does not know its kind yet."""
SOON = (errors.Conflict, errors.NotFound)
SOON_ATTEMPTS = 10
LAST_REFUSED_SECONDS = 60.0
"""For what a person has to correct, the delay grows up to that; for bugs of ours it is that."""
NOT_LEADING_SECONDS = 1.0
FORBIDDEN_ATTEMPTS = 5
"""An API server that has just started allows nothing for a moment: nobody need hear of it."""

REFUSALS = (errors.Invalid, errors.Forbidden, errors.FieldConflict, errors.NotOurs)
"""What a person has to correct."""

log = logging.getLogger(__name__)


class Workers:
    def __init__(self, queue: Queue[Job], reconciler: Reconciler, report: Report) -> None:
        self._queue = queue
        self._reconciler = reconciler
        self._report = report
        self._attempts: Counter[Job] = Counter()
        self.failures: Counter[str] = Counter()
        self.are_at_work = False

    async def run(self) -> None:
        """Work until cancelled; what is being done then is broken off."""
        self.are_at_work = True
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(AT_ONCE):
                    group.create_task(self._work(group))
        finally:
            self.are_at_work = False

    async def _work(self, group: asyncio.TaskGroup) -> NoReturn:
        while True:
            job = await self._queue.take()
            if job.what == "probe":
                self._begin(job, group)
                continue
            try:
                await self._see_to(job)
            finally:
                self._queue.done(job)

    def _begin(self, job: Job, group: asyncio.TaskGroup) -> None:
        """Leave a job to itself. Pods may take their time; whoever asks them bounds how many are asked at once."""
        task = group.create_task(self._see_to(job))
        task.add_done_callback(lambda _: self._queue.done(job))  # also if it never began

    async def _see_to(self, job: Job) -> None:
        try:
            await self._do(job)
        except Exception as error:  # noqa: BLE001 - logged with its traceback
            self._stumbled(job, error)

    async def _do(self, job: Job) -> None:
        try:
            await self._reconciler.do(job)
        except errors.NotLeading:  # whoever leads does it; if it is us again, we do
            self._queue.add(job, job.urgency, delay=NOT_LEADING_SECONDS)
        except errors.GatewayError as error:
            self._failed(job, error)
        else:
            self._succeeded(job)

    def _stumbled(self, job: Job, bug: Exception) -> None:
        """Leave a job that met a bug of ours for later: the Gateways of others must not wait for its correction."""
        self.failures[type(bug).__name__] += 1
        log.error("a bug ended %s of %s, next attempt in %g s", job.what, job.key, LAST_REFUSED_SECONDS, exc_info=bug)
        self._queue.add(job, job.urgency, delay=LAST_REFUSED_SECONDS)

    def _succeeded(self, job: Job) -> None:
        self._attempts.pop(job, None)
        gateway = self._reconciler.gateway_of(job)
        if gateway in self._reconciler.faults:
            self._reconciler.blame(gateway, job.key, None)

    def _failed(self, job: Job, error: errors.GatewayError) -> None:
        self.failures[type(error).__name__] += 1
        self._attempts[job] += 1
        most = LAST_REFUSED_SECONDS if isinstance(error, REFUSALS) else LAST_RETRY_SECONDS
        delay = min(FIRST_RETRY_SECONDS * 2.0 ** min(self._attempts[job] - 1, 30), most)
        if isinstance(error, SOON) and self._attempts[job] <= SOON_ATTEMPTS:
            delay = min(delay, STALE_SECONDS * self._attempts[job])
        elif isinstance(error, errors.Forbidden) and self._attempts[job] < FORBIDDEN_ATTEMPTS:
            log.info("%s of %s is not allowed, next attempt in %.1f s: %s", job.what, job.key, delay, error)
        elif isinstance(error, REFUSALS):
            self._complain(job, error)
        else:
            log.warning("%s of %s failed, next attempt in %.1f s: %s", job.what, job.key, delay, error)
        self._queue.add(job, job.urgency, delay=delay)

    def _complain(self, job: Job, error: errors.GatewayError) -> None:
        gateway = self._reconciler.gateway_of(job)
        if gateway is None:
            log.warning("%s of %s was refused: %s", job.what, job.key, error)
        elif gateway.namespace != job.key.namespace:  # its traffic to other places goes on
            log.warning("%s: %s", gateway, error)
            self._report(gateway, _reason(error), f"{job.key}: {error}")
        elif self._reconciler.blame(gateway, job.key, str(error)):
            log.error("%s: %s", gateway, error)
            self._report(gateway, _reason(error), str(error))


def _reason(error: errors.GatewayError) -> str:
    if isinstance(error, errors.FieldConflict):
        return "FieldConflict"
    return "NotOurs" if isinstance(error, errors.NotOurs) else "ApplyRefused"
