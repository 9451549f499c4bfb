"""``vgw operator``: Gateways on Kubernetes, until SIGTERM or SIGINT.

In:   Settings and a connection to the API server.
Out:  the exit status: 0 after a stop that was asked for.

watches → batches → translation → jobs → writes. Reading goes on whether or not this operator
leads, so that a hand-over takes no time to read.
"""

import asyncio
import contextlib
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
from varnish_gateway.operator.execute.finalizer import Finalizer
from varnish_gateway.operator.execute.objects import Objects
from varnish_gateway.operator.execute.queue import Queue
from varnish_gateway.operator.execute.routing import Routing
from varnish_gateway.operator.execute.workers import Workers
from varnish_gateway.operator.execute.writer import Writer
from varnish_gateway.operator.leadership import AlwaysLeading, Leadership, while_leading
from varnish_gateway.operator.metrics import Parts, page
from varnish_gateway.operator.observe.pods import Chaperones
from varnish_gateway.operator.observe.sources import Sources
from varnish_gateway.operator.plan.jobs import Job
from varnish_gateway.operator.plan.reconciler import Hands, Reconciler
from varnish_gateway.operator.settings import Settings
from varnish_gateway.operator.status.prober import Prober
from varnish_gateway.operator.status.statuses import Statuses
from varnish_gateway.runtime.signals import stop_signal
from varnish_gateway.translate import Translator
from varnish_gateway.translate.options import CONTROLLER
from varnish_gateway.version import VERSION

USER_AGENT = f"varnish-gateway-operator/{VERSION}"
USER_VCL_BYTES = 400_000
ROUTE_BYTES = 100_000
"""What fits into a ConfigMap, beside a shard and the index, and as one of several routes of a shard."""
TLS_BYTES = 1_000_000
"""What fits into a Secret."""
LEASE = "varnish-gateway-operator"

log = logging.getLogger(__name__)


async def run_operator(settings: Settings, connection: Connection) -> int:
    """Serve until told to stop."""
    metrics = Metrics()
    stop = stop_signal()
    async with Client(connection, user_agent=USER_AGENT, metrics=metrics) as electing:
        leadership = _leadership(electing, settings)
        async with (
            Client(connection, user_agent=USER_AGENT, metrics=metrics) as client,
            Client(connection, user_agent=USER_AGENT, metrics=metrics, may_write=leadership.holds) as writing,
            Chaperones(settings.chaperone_port) as chaperones,
        ):
            operator = Operator(settings, Outside(client, writing, chaperones, leadership))
            running = asyncio.create_task(operator.run())
            await asyncio.wait({running, stop}, return_when=asyncio.FIRST_COMPLETED)
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running  # raises what ended it, if it was not us
    return 0


def _leadership(client: Client, settings: Settings) -> Leadership:
    if not settings.leader_election:
        return AlwaysLeading()
    return Election(
        client,
        namespace=settings.namespace,
        name=f"{LEASE}-{settings.class_name}",
        # Whatever names are alike, no two processes hold one lease.
        identity=f"{settings.identity}_{secrets.token_hex(4)}",
        duration=settings.lease_seconds,
        renew_deadline=settings.lease_seconds * 2 / 3,
        retry=settings.lease_seconds * 2 / 15,
    )


class Outside(NamedTuple):
    """Whom an operator talks to. ``writing`` sends only while we lead."""

    client: Client
    writing: Client
    chaperones: Chaperones
    leadership: Leadership


class Operator:
    """All parts, joined."""

    def __init__(self, settings: Settings, outside: Outside) -> None:
        self._settings = settings
        self._leadership = outside.leadership
        self._recorder = Recorder(outside.writing, component="varnish-gateway", instance=settings.identity)
        self._queue: Queue[Job] = Queue()
        self._sources = Sources(outside.client, settings.class_name)
        writer = Writer(outside.writing)
        installation = Installation(
            image=settings.image,
            image_pull_secrets=settings.image_pull_secrets,
            chaperone_role=settings.chaperone_role,
            log_level=settings.log_level.lower(),
        )
        translator = Translator(
            class_name=settings.class_name,
            only_class=True,
            addresses="load-balancer",
            vcl_limit=USER_VCL_BYTES,
            route_limit=ROUTE_BYTES,
            tls_limit=TLS_BYTES,
        )
        self._reconciler = Reconciler(translator, installation, self._sources, self._queue)
        objects = Objects(writer, self._sources, self._report, self._reconciler.add_surplus)
        routing = Routing(writer, self._sources, objects, self._reconciler.add_surplus)
        statuses = Statuses(writer, self._sources, self._recorder, CONTROLLER, self._sources.is_of_another_operator)
        prober = Prober(self._sources, outside.chaperones, statuses.verdicts)
        self._reconciler.employ(Hands(objects, routing, statuses, Finalizer(writer, self._sources), prober))
        self._workers = Workers(self._queue, self._reconciler, self._report)
        self._parts = Parts(
            kube=outside.client.metrics,
            queue=self._queue,
            reconciler=self._reconciler,
            writer=writer,
            workers=self._workers,
            leadership=outside.leadership,
        )
        self._is_synced = False

    async def run(self) -> None:
        """Run until cancelled."""
        servers = [
            (health.metrics_server(lambda: page(self._parts)), self._settings.metrics),
            (health.health_server(self._readiness), self._settings.health),
        ]
        try:
            for server, address in servers:
                await server.start(address)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._leadership.run())
                group.create_task(self._recorder.run())
                group.create_task(self._sources.run())
                group.create_task(self._follow(group))
        finally:
            for server, _ in servers:
                await server.stop()

    async def _follow(self, group: asyncio.TaskGroup) -> NoReturn:
        await self._sources.synced()
        self._reconciler.take(await self._sources.batch())
        self._is_synced = True
        log.info("read everything: %d Gateways are ours", len(self._reconciler.plans))
        gc.collect()
        gc.freeze()  # what was read at the start stays; the collector need not look at it again
        group.create_task(while_leading(self._leadership, self._reconciler, self._workers))
        while True:
            self._reconciler.take(await self._sources.batch())

    def _readiness(self) -> tuple[int, str]:
        if not self._is_synced:
            return 503, "not everything was read yet\n" + "".join(f"{why}\n" for why in self._sources.problems)
        if problems := self._sources.problems:
            return 503, "".join(f"{why}\n" for why in problems)
        absent = self._sources.absent
        return 200, f"ok; not installed in this cluster: {', '.join(absent)}\n" if absent else "ok\n"

    def _report(self, gateway: Key, reason: str, message: str) -> None:
        """Say on a Gateway what a person should notice."""
        self._recorder.record(self._sources.reference(gateway), "Warning", reason, message)
