"""Run the jobs of the queue while this operator leads.

In:   the queue.
Out:  jobs run, and their results in the Reconciler, whose next jobs go to the queue. A failed job
      is retried with growing delays; an error that a user has to correct becomes an Event on the
      Gateway. A bug that one job hits is logged and stops no other job.

Probes and invalidations run outside the writer pool with their own concurrency limits: an unresponsive
pod never delays a write.
"""

import asyncio
import logging
from collections import Counter
from typing import NoReturn, Protocol

from varnish_gateway import errors
from varnish_gateway.operator.execute.events import Warnings
from varnish_gateway.operator.execute.queue import Queue
from varnish_gateway.operator.execute.retries import LAST_SECONDS, Retries
from varnish_gateway.operator.plan.jobs import Job, Jobs
from varnish_gateway.operator.plan.reconciler import Reconciler
from varnish_gateway.operator.plan.results import JobResult

AT_ONCE = 16
ASKING_PODS = ("probe", "invalidate")
NOT_LEADING_SECONDS = 1.0

log = logging.getLogger(__name__)


class RunsJobs(Protocol):
    """Executor, or what a test has in its place."""

    def begin(self) -> None:
        """Prepare for leading."""

    async def run(self, job: Job, result: JobResult) -> None:
        """Run one job."""


class Workers:
    """``failures`` are counted by the name of the error."""

    def __init__(self, queue: Queue[Job], reconciler: Reconciler, executor: RunsJobs, warnings: Warnings) -> None:
        self._queue = queue
        self._reconciler = reconciler
        self._executor = executor
        self._warnings = warnings
        self._retries = Retries()
        self.failures: Counter[str] = Counter()
        self.is_running = False

    def enqueue(self, jobs: Jobs) -> None:
        """Add jobs to the queue. A standby drops them: an operator that starts to lead compares everything."""
        for job, delay in jobs.items():
            self._queue.add(job, job.urgency, delay=delay)

    async def run(self) -> None:
        """Compare everything, then run jobs until cancelled; a cancelled job stops where it is."""
        self._executor.begin()
        self._queue.open()
        self.enqueue(self._reconciler.resync())
        self.is_running = True
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(AT_ONCE):
                    group.create_task(self._work(group))
        finally:
            self.is_running = False
            self._queue.close()

    async def _work(self, group: asyncio.TaskGroup) -> NoReturn:
        while True:
            job = await self._queue.get()
            if job.action in ASKING_PODS:
                self._start(job, group)
                continue
            try:
                await self._run_fenced(job)
            finally:
                self._queue.done(job)

    def _start(self, job: Job, group: asyncio.TaskGroup) -> None:
        """Run a job in a task of its own; what asks the pods limits how many are asked at once."""
        task = group.create_task(self._run_fenced(job))
        task.add_done_callback(lambda _: self._queue.done(job))  # even if it never started

    async def _run_fenced(self, job: Job) -> None:
        try:
            await self._run(job)
        except Exception as error:  # noqa: BLE001 - logged with its traceback
            self._on_bug(job, error)

    async def _run(self, job: Job) -> None:
        result = JobResult()
        try:
            await self._executor.run(job, result)
        except errors.NotLeading:  # the leader runs it; that may be this operator again
            self._retry(job, NOT_LEADING_SECONDS)
        except errors.GatewayError as error:
            self._on_failure(job, error)
        else:
            self._on_success(job)
        finally:
            self.enqueue(self._reconciler.on_result(job, result))

    def _retry(self, job: Job, delay: float) -> None:
        self._queue.add(job, job.urgency, delay=delay)

    def _on_success(self, job: Job) -> None:
        self._retries.on_success(job)
        gateway = self._reconciler.gateway_of(job)
        if gateway in self._reconciler.faults:
            self.enqueue(self._reconciler.set_fault(gateway, job.key, None))

    def _on_bug(self, job: Job, bug: Exception) -> None:
        """Run a job that hit a bug much later: other Gateways must not wait for the fix."""
        self.failures[type(bug).__name__] += 1
        delay = LAST_SECONDS
        log.error("a bug stopped %s of %s, next attempt in %g s", job.action, job.key, delay, exc_info=bug)
        self._retry(job, delay)

    def _on_failure(self, job: Job, error: errors.GatewayError) -> None:
        self.failures[type(error).__name__] += 1
        retry = self._retries.on_failure(job, error)
        if retry.is_rejection:
            self._report(job, error)
        elif not retry.is_stale:
            level = logging.INFO if isinstance(error, errors.Forbidden) else logging.WARNING
            log.log(level, "%s of %s failed, next attempt in %.1f s: %s", job.action, job.key, retry.delay, error)
        self._retry(job, retry.delay)

    def _report(self, job: Job, error: errors.GatewayError) -> None:
        """Report an error that a user has to correct, where the user looks for it."""
        gateway = self._reconciler.gateway_of(job)
        if gateway is None:
            log.warning("%s of %s was rejected: %s", job.action, job.key, error)
        elif jobs := self._reconciler.set_fault(gateway, job.key, str(error)):
            is_elsewhere = gateway.namespace != job.key.namespace  # traffic to other namespaces is not affected
            log.log(logging.WARNING if is_elsewhere else logging.ERROR, "%s: %s: %s", gateway, job.key, error)
            self._warnings.publish(gateway, _reason(error), f"{job.key}: {error}" if is_elsewhere else str(error))
            self.enqueue(jobs)


def _reason(error: errors.GatewayError) -> str:
    if isinstance(error, errors.FieldConflict):
        return "FieldConflict"
    return "NotOurs" if isinstance(error, errors.NotOurs) else "ApplyRefused"
