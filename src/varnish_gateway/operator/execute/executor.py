"""Run one job.

In:   a job, and the desired state of the Reconciler.
Out:  writes and probes, and a JobResult that is filled in as the job proceeds.
Raises errors.GatewayError if the job has to be retried.
"""

import logging
import time

from varnish_gateway.api import Key
from varnish_gateway.operator.execute.events import Warnings
from varnish_gateway.operator.execute.finalizer import FinalizerWriter
from varnish_gateway.operator.execute.invalidations import InvalidationExecutor
from varnish_gateway.operator.execute.objects import ObjectWriter
from varnish_gateway.operator.execute.routing import RoutingWriter
from varnish_gateway.operator.execute.statuses import StatusWriter
from varnish_gateway.operator.observe.state import ObservedState
from varnish_gateway.operator.plan.jobs import Job
from varnish_gateway.operator.plan.reconciler import Reconciler
from varnish_gateway.operator.plan.results import JobResult, ProbeReports
from varnish_gateway.operator.status.chaperones import Chaperones
from varnish_gateway.translate.gateway.parameter_use import UNREFERENCED

log = logging.getLogger(__name__)


class Executor:
    def __init__(  # noqa: PLR0913 - one for each kind of job
        self,
        desired: Reconciler,
        observed: ObservedState,
        *,
        objects: ObjectWriter,
        routing: RoutingWriter,
        statuses: StatusWriter,
        finalizer: FinalizerWriter,
        invalidations: InvalidationExecutor,
        chaperones: Chaperones,
        warnings: Warnings,
    ) -> None:
        self._desired = desired
        self._observed = observed
        self._objects = objects
        self._routing = routing
        self._statuses = statuses
        self._finalizer = finalizer
        self._invalidations = invalidations
        self._chaperones = chaperones
        self._warnings = warnings

    def begin(self) -> None:
        """Prepare for leading: forget what an earlier term left."""
        self._objects.begin()

    async def run(self, job: Job, result: JobResult) -> None:
        """Run a job by comparing desired and observed state now."""
        match job.action:
            case "routing":
                if (gateway := self._desired.gateways.get(job.key)) is not None:
                    await self._routing.ensure(gateway, result)
            case "object":
                await self._run_object(job.key, result)
            case "probe":
                await self._probe(job.key, result)
            case "finalizer":
                await self._finalizer.ensure(in_use=bool(self._desired.gateways))
            case "invalidate":
                await self._invalidations.run(job.key, result)
            case "notice":
                self._notice(job.key)
            case "status":
                await self._write_status(job.key, result)

    async def _run_object(self, key: Key, result: JobResult) -> None:
        action = self._desired.object_action(key)
        if action == "apply":
            await self._objects.ensure(key, result)
            return
        self._objects.forget(key)  # also where the garbage collector deletes it
        if action == "delete":
            await self._objects.delete(key)

    def _notice(self, key: Key) -> None:
        """Publish that an object has no effect, if that is still so."""
        if key in self._desired.parameters.unreferenced:
            log.warning("%s %s", key, UNREFERENCED)
            self._warnings.publish(key, "NotReferenced", f"it {UNREFERENCED}")

    async def _probe(self, key: Key, result: JobResult) -> None:
        """Ask the ready pods of a Gateway what they serve, and those that start what they understand."""
        gateway = self._desired.gateways.get(key)
        if gateway is not None:
            ready, starting = self._observed.ready_pods(key), self._desired.negotiation.starting_pods(key)
            reports = await self._chaperones.ask([*ready, *starting])
            of_starting = {pod.name: reports.pop(pod.name) for pod in starting}
            result.probe = ProbeReports(gateway, reports, time.monotonic(), of_starting)

    async def _write_status(self, key: Key, result: JobResult) -> None:
        if key not in self._desired.statuses:
            return
        result.retry_after = self._desired.statuses.delay(key, time.monotonic())
        if not result.retry_after:
            await self._statuses.ensure(key, result)
