"""``vgw operator``: Gateways on Kubernetes, until SIGTERM or SIGINT.

In:   OperatorSettings and a connection to the API server.
Out:  the exit status: 0 after a requested stop.

watches → batches → translation → desired state → jobs → writes. A standby reads and translates
like the leader, so that it takes over without delay.
"""

import asyncio
import contextlib
import functools
import gc
import logging
import secrets
from typing import NamedTuple, NoReturn

from varnish_gateway.api import Key
from varnish_gateway.emit.manifests import Installation
from varnish_gateway.kube.client import Client
from varnish_gateway.kube.connection import Connection
from varnish_gateway.kube.events import Recorder
from varnish_gateway.kube.lease import Election
from varnish_gateway.kube.metrics import Metrics
from varnish_gateway.operator import health
from varnish_gateway.operator.address import page as address
from varnish_gateway.operator.address.gateways import AddressedGateways
from varnish_gateway.operator.address.secret_tokens import SecretTokens
from varnish_gateway.operator.address.server import InvalidationServer
from varnish_gateway.operator.execute.events import Warnings
from varnish_gateway.operator.execute.executor import Executor
from varnish_gateway.operator.execute.finalizer import FinalizerWriter
from varnish_gateway.operator.execute.invalidations import InvalidationExecutor
from varnish_gateway.operator.execute.objects import ObjectWriter
from varnish_gateway.operator.execute.queue import Queue
from varnish_gateway.operator.execute.rollouts import Rollouts
from varnish_gateway.operator.execute.routing import RoutingWriter
from varnish_gateway.operator.execute.statuses import StatusWriter
from varnish_gateway.operator.execute.workers import Workers
from varnish_gateway.operator.execute.writer import Writer
from varnish_gateway.operator.leadership import AlwaysLeading, Leadership, work_while_leading
from varnish_gateway.operator.metrics import MetricSources, page
from varnish_gateway.operator.observe.state import Batch, ObservedState
from varnish_gateway.operator.observe.watches import Watches
from varnish_gateway.operator.plan.jobs import Job, Jobs
from varnish_gateway.operator.plan.reconciler import Reconciler
from varnish_gateway.operator.plan.step import Step
from varnish_gateway.operator.settings import OperatorSettings
from varnish_gateway.operator.status.chaperones import Chaperones
from varnish_gateway.runtime.environment import Address
from varnish_gateway.runtime.match_compiler import MatchCompiler, Run
from varnish_gateway.runtime.signals import stop_signal
from varnish_gateway.runtime.webserver import WebServer
from varnish_gateway.translate import Translator
from varnish_gateway.version import VERSION

USER_AGENT = f"varnish-gateway-operator/{VERSION}"
USER_VCL_BYTES = 400_000
ROUTE_BYTES = 100_000
"""These fit into a ConfigMap: user VCL beside a shard and the index, a route as one of several in a shard."""
ATTACHMENTS_BYTES = 400_000
"""Beside the rules of the route. The longest hostnames on all 64 listeners of a Gateway take less; those on many
ListenerSets would take megabytes."""
POLICIES_BYTES = 100_000
"""This fits beside them: the cache policies of all listeners of a Gateway, a copy for each listener."""
TLS_BYTES = 1_000_000
"""This fits into a Secret."""
LISTENERS_BYTES = 300_000
"""About 2,000 usual listeners. They fit beside user VCL and the index, and their sockets into one variable of a pod."""
LEASE = "varnish-gateway-operator"
COMPILE_SECONDS = 0.005
"""A batch waits so long for the regular expressions of its routes: usual ones are compiled by then."""
FIRST_COMPILE_SECONDS = 240.0
"""At the start it waits so long, because a route that was served before must not be missing now."""
FIRST_COMPILE_CPU_SECONDS = 5.0
"""But for a namespace that has taken so much time of the thread it does not wait then. A limit in time of the wall
would remove the routes of others too where the node is busy: the thread gets a twentieth of a core there, or less."""

log = logging.getLogger(__name__)


async def run_operator(settings: OperatorSettings, connection: Connection) -> int:
    """Run until a stop signal."""
    metrics = Metrics()
    stop = stop_signal()
    async with Client(connection, user_agent=USER_AGENT, metrics=metrics) as electing:
        leadership = _leadership(electing, settings)
        async with (
            Client(connection, user_agent=USER_AGENT, metrics=metrics) as client,
            Client(connection, user_agent=USER_AGENT, metrics=metrics, may_write=leadership.holds) as writing,
            Chaperones(settings.chaperone_port) as chaperones,
        ):
            operator = Operator(settings, Dependencies(client, writing, chaperones, leadership))
            running = asyncio.create_task(operator.run())
            await asyncio.wait({running, stop}, return_when=asyncio.FIRST_COMPLETED)
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running  # raises the error that stopped it, if it wasn't the cancellation
    return 0


def _leadership(client: Client, settings: OperatorSettings) -> Leadership:
    if not settings.leader_election:
        return AlwaysLeading()
    return Election(
        client,
        namespace=settings.namespace,
        name=f"{LEASE}-{settings.class_name}",
        # Processes with the same name must not share one lease.
        identity=f"{settings.identity}_{secrets.token_hex(4)}",
        duration=settings.lease_seconds,
        renew_deadline=settings.lease_seconds * 2 / 3,
        retry=settings.lease_seconds * 2 / 15,
    )


class Dependencies(NamedTuple):
    """What an operator talks to. ``writing`` sends requests only while this operator leads.

    ``compiling`` runs what takes long, by default on a thread.
    """

    client: Client
    writing: Client
    chaperones: Chaperones
    leadership: Leadership
    compiling: Run | None = None


class Operator:
    """``queue``, ``workers`` and ``addressed`` are for metrics and tests."""

    def __init__(self, settings: OperatorSettings, dependencies: Dependencies) -> None:
        self._settings = settings
        self._leadership = dependencies.leadership
        self._recorder = Recorder(dependencies.writing, component="varnish-gateway", instance=settings.identity)
        observed = ObservedState(settings.class_name)
        self._watches = Watches(dependencies.client, observed)
        self._compiler = MatchCompiler(self._watches.wake, dependencies.compiling)
        token_key = secrets.token_bytes(32)
        self._reconciler = Reconciler(_translator(settings), _installation(settings), observed, token_key)
        self.queue: Queue[Job] = Queue()
        writer = Writer(dependencies.writing)
        warnings = Warnings(self._recorder, observed)
        rollouts = Rollouts(observed.owned, settings.rollouts_at_once)
        objects = ObjectWriter(writer, self._watches, self._reconciler.objects, warnings, rollouts=rollouts)
        asking = dependencies.chaperones
        self._invalidations = InvalidationExecutor(writer, observed, self._reconciler.invalidations, asking)
        executor = Executor(
            self._reconciler,
            observed,
            objects=objects,
            routing=RoutingWriter(writer, self._watches, objects),
            statuses=StatusWriter(writer, self._watches, self._reconciler.statuses, warnings),
            finalizer=FinalizerWriter(writer, observed),
            invalidations=self._invalidations,
            chaperones=asking,
            warnings=warnings,
        )
        self.workers = Workers(self.queue, self._reconciler, executor, warnings)
        self.addressed = AddressedGateways(self._reconciler.gateways, observed)
        self._address = address.AddressPage(
            self.addressed,
            SecretTokens(dependencies.client, functools.partial(_report_tokens, warnings)),
            asking,
            lambda: self._watches.problem_with_pods,
        )
        self._invalidation = InvalidationServer(address.PATH, self._address.answer)
        self._metric_sources = MetricSources(
            kube=dependencies.client.metrics,
            queue=self.queue,
            reconciler=self._reconciler,
            writer=writer,
            workers=self.workers,
            leadership=dependencies.leadership,
            compiler=self._compiler,
            invalidations=self._invalidations,
            address=self._address,
        )
        self._synced = asyncio.Event()

    @property
    def is_synced(self) -> bool:
        """Whether everything was read and translated once."""
        return self._synced.is_set()

    async def run(self) -> None:
        """Run until cancelled."""
        servers: list[tuple[WebServer | InvalidationServer, Address]] = [
            (health.metrics_server(lambda: page(self._metric_sources)), self._settings.metrics),
            (health.health_server(self.readiness), self._settings.health),
        ]
        if self._settings.invalidation is not None:
            servers.append((self._invalidation, self._settings.invalidation))
        try:
            for server, where in servers:
                await server.start(where)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._campaign())
                group.create_task(self._recorder.run())
                group.create_task(self.control())
                if self._settings.invalidation is not None:
                    group.create_task(self._serve_invalidations())
        finally:
            for server, _ in servers:
                await server.stop()

    async def _serve_invalidations(self) -> NoReturn:
        """Serve once everything was read: before that no Gateway is known, and none of the pods."""
        await self._synced.wait()
        await self._invalidation.run()

    async def _campaign(self) -> None:
        """Take part in the election once everything was read.

        An operator that can't read the cluster would hold the Lease, and one that could lead would wait for it.
        """
        await self._synced.wait()
        await self._leadership.run()

    async def control(self) -> NoReturn:
        """Watch, plan and, while leading, write; without servers, election and Events."""
        with contextlib.closing(self._compiler):
            async with asyncio.TaskGroup() as group:
                group.create_task(self._watches.run())
                await self._watches.synced()
                await self._reconcile(group)
                self._synced.set()
                log.info("everything is read: this operator manages %d Gateways", len(self._reconciler.gateways))
                gc.collect()
                gc.freeze()  # objects read at the start stay; the collector need not visit them again
                group.create_task(work_while_leading(self._leadership, self.workers))
                while True:
                    await self._reconcile(group)

    async def _reconcile(self, group: asyncio.TaskGroup) -> None:
        """Apply the next batch to the desired state and enqueue the jobs that follow.

        A referenced object that is not watched yet is read first, such as a ConfigMap: no job runs
        between the translation without it and the one with it.
        """
        steps = [self._translated(await self._watches.batch())]
        await self._compile(steps)
        referenced = self._reconciler.referenced
        while (more := await self._watches.follow_references(referenced, group)) is not None:
            _append(steps, self._translated(more))
        jobs = Jobs()
        for batch, delta in steps:
            jobs.merge(self._reconciler.reconcile(batch, delta))
        self.workers.enqueue(jobs)

    async def _compile(self, steps: list[Step]) -> None:
        """Wait a moment for regular expressions, longer at the start. What takes longer follows in a later batch."""
        if self.is_synced:
            has_results = await self._compiler.settle(COMPILE_SECONDS)
        else:
            has_results = await self._compiler.settle(FIRST_COMPILE_SECONDS, of_namespace=FIRST_COMPILE_CPU_SECONDS)
            if len(self._compiler):
                log.warning("started without routes and policies that take long to compile: %d", len(self._compiler))
        if has_results:
            _append(steps, self._translated(Batch()))

    def _translated(self, batch: Batch) -> Step:
        """Translate a batch, with the regular expressions that were compiled by now."""
        delta = self._reconciler.translate({**batch.inputs, **self._compiler.drain()})
        self._compiler.update(delta.uncompiled, delta.released)
        return Step(batch, delta)

    def readiness(self) -> tuple[int, str]:
        """Return the status and the text of /readyz."""
        if not self.is_synced:
            waiting = f"regular expressions are not compiled yet, of so many routes and policies: {len(self._compiler)}"
            why_not = waiting if len(self._compiler) else "not everything was read yet"
            return 503, "".join(f"{why}\n" for why in (why_not, *self._watches.problems))
        if problems := self._watches.problems:
            return 503, "".join(f"{why}\n" for why in problems)
        absent, polled = self._watches.absent, self._watches.polled
        text = f"ok; not installed in this cluster: {', '.join(absent)}" if absent else "ok"
        return 200, f"{text}; {polled}\n" if polled else f"{text}\n"


def _append(steps: list[Step], later: Step) -> None:
    """Add a step, as a part of the last one where that is possible."""
    merged = steps[-1].merge(later)
    steps[-1:] = [steps[-1], later] if merged is None else [merged]


def _report_tokens(warnings: Warnings, gateway: Key, problem: str) -> None:
    """Report a Secret of tokens that can't be used, where its user looks for it."""
    log.warning("%s: %s", gateway, problem)
    warnings.publish(gateway, "InvalidationTokens", problem)


def _translator(settings: OperatorSettings) -> Translator:
    return Translator(
        class_name=settings.class_name,
        only_class=True,
        addresses="load-balancer",
        vcl_limit=USER_VCL_BYTES,
        route_limit=ROUTE_BYTES,
        attachments_limit=ATTACHMENTS_BYTES,
        tls_limit=TLS_BYTES,
        listeners_limit=LISTENERS_BYTES,
        policies_limit=POLICIES_BYTES,
        compiles=False,
    )


def _installation(settings: OperatorSettings) -> Installation:
    return Installation(
        image=settings.image,
        image_pull_secrets=settings.image_pull_secrets,
        chaperone_role=settings.chaperone_role,
        log_level=settings.log_level.lower(),
    )
