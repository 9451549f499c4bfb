"""From what changed to what has to be done.

In:   batches of changes (``take``).
Out:  jobs in the queue, and their execution (``do``). Every job compares what is wanted with
      what is there at that moment, so it does not matter how often it runs, or what came between.
"""

import logging
import time
from collections.abc import Mapping

from msgspec import UNSET, Struct

from varnish_gateway import api, ir
from varnish_gateway.api import Key
from varnish_gateway.emit import names
from varnish_gateway.emit.manifests import Installation
from varnish_gateway.operator.execute.finalizer import Finalizer
from varnish_gateway.operator.execute.objects import Objects
from varnish_gateway.operator.execute.queue import Queue
from varnish_gateway.operator.execute.routing import Routing
from varnish_gateway.operator.observe.owned import LiveMap
from varnish_gateway.operator.observe.sources import Batch, Sources
from varnish_gateway.operator.plan.gateway import Plan
from varnish_gateway.operator.plan.jobs import Job
from varnish_gateway.operator.status.prober import Prober
from varnish_gateway.operator.status.statuses import Statuses
from varnish_gateway.translate import Translator

COUNTING = (api.Gateway.kind, api.ListenerSet.kind)
COUNTING_STATUS_SECONDS = 0.2
"""The status of those that count routes is not written more often: a burst of routes changes it all the time."""

log = logging.getLogger(__name__)


class Hands(Struct, frozen=True):
    """Those that do the jobs."""

    objects: Objects
    routing: Routing
    statuses: Statuses
    finalizer: Finalizer
    prober: Prober


class Reconciler:
    """``plans`` are the Gateways that are ours. ``faults`` are what could not be brought about, by Gateway."""

    def __init__(self, translator: Translator, installation: Installation, sources: Sources, queue: Queue[Job]) -> None:
        self._translator = translator
        self._installation = installation
        self._sources = sources
        self._queue = queue
        self._maps: dict[Key, Key] = {}  # ConfigMap → Gateway
        self._status_written: dict[Key, float] = {}
        self.plans: dict[Key, Plan] = {}
        self.faults: dict[Key, dict[Key, str]] = {}
        self._is_working = False
        self._hands: Hands

    def employ(self, hands: Hands) -> None:
        self._hands = hands

    # -- what changed --------------------------------------------------------------------

    def take(self, batch: Batch) -> None:
        """Take in what changed; add what has to be done about it."""
        delta = self._translator.update(batch.inputs) if batch.inputs else ir.Delta()
        self._take_inputs(batch.inputs, delta)
        for key, changes in delta.gateways.items():
            if changes is None:
                self._drop(key)
            else:
                self._take_changes(key, changes)
        for key, status in delta.statuses.items():
            self._hands.statuses.want(key, status)
            self._add("status", key)
            if status is None:
                self._status_written.pop(key, None)
        if self._sources.class_key in batch.stated:
            self._add("finalizer", self._sources.class_key)
        self._take_stated(batch)
        for key in batch.owned:
            self._take_owned(key)
        for gateway in batch.reached & self.plans.keys():
            self._probe_soon(gateway)

    def _take_stated(self, batch: Batch) -> None:
        """Have statuses looked at that are stored otherwise now, or of objects that are others now."""
        statuses = self._hands.statuses
        for key, obj in batch.inputs.items():
            if isinstance(obj, api.ListenerSet):
                statuses.place(key)
            elif isinstance(obj, api.Gateway) and key not in self.plans:
                self._sweep(key)  # it became somebody else's, perhaps while we could not see it
        if batch.is_released:
            self._recall()
            batch.stated.update(statuses.known)
        for key in batch.stated:
            if key in statuses or statuses.recall(key):
                self._add("status", key)

    def _take_inputs(self, inputs: Mapping[Key, api.Object | None], delta: ir.Delta) -> None:
        for key, obj in inputs.items():
            if isinstance(obj, api.Gateway) and key in self.plans:
                self._take_gateway(key, obj)
                if key not in delta.gateways:  # or its objects are made when these changes are taken in
                    self._settle(key, self.plans[key])
            elif obj is None and key in self._hands.objects:  # a Service that stood in the way of ours
                self._add("object", key)

    def add_all(self) -> None:
        """Have everything compared: this operator begins to lead."""
        self._is_working = True
        self._queue.clear()
        self._add("finalizer", self._sources.class_key)
        self._recall()
        for gateway, plan in self.plans.items():
            plan.doubt()
            if plan.keep_to(self._shards_in_use(gateway)):
                self._settle(gateway, plan)
            self._add("routing", gateway)
            self._add("probe", gateway)
        for key in {*self._hands.objects.keys(), *self._sources.live} - self._maps.keys():
            self._add("object", key)
        for key in self._hands.statuses.known:
            self._add("status", key)

    def rest(self) -> None:
        """Collect no more jobs: another operator leads."""
        self._is_working = False
        self._queue.clear()

    def _recall(self) -> None:
        """Find out what was said before this operator began, and is not for us to say any more."""
        for key in self._sources.stated:
            self._hands.statuses.recall(key)

    def _take_gateway(self, key: Key, gateway: api.Gateway) -> None:
        plan = self.plans[key]
        is_next = _age(plan.gateway) != _age(gateway)
        plan.gateway = gateway
        if is_next:
            self._hands.statuses.verdicts.pop(key, None)  # it was about the one before
            self._add("routing", key)
            self._probe_soon(key)

    def _take_changes(self, key: Key, changes: ir.GatewayDelta) -> None:
        plan = self.plans.get(key)
        if plan is None:
            plan = self.plans[key] = self._plan(key)
            self._add("finalizer", self._sources.class_key)
        sockets = plan.sockets
        plan.take(changes)
        if not plan.sockets <= sockets:  # what the pods said was not about the new ones
            self._hands.statuses.verdicts.pop(key, None)
        self._settle(key, plan)
        self._add("routing", key)
        if changes.listeners is not None or changes.tls is not None or changes.user_vcl is not UNSET:
            self._probe_soon(key)

    def _plan(self, key: Key) -> Plan:
        gateway = self._sources.stated[key].obj
        assert isinstance(gateway, api.Gateway)  # noqa: S101 - for the type checker
        return Plan(gateway, self._installation, self._shards_in_use(key) or 1)

    def _shards_in_use(self, gateway: Key) -> int | None:
        main = self._sources.live.get(Key("ConfigMap", gateway.namespace, names.config_map(gateway.name)))
        return main.shards if isinstance(main, LiveMap) else None

    def _settle(self, key: Key, plan: Plan) -> None:
        """Make the Gateway's objects anew where that is needed."""
        is_first = plan.objects is None
        changed = plan.settle()
        self._hands.objects.want(key, changed)
        if is_first and plan.objects is not None:
            self._sweep(key)  # what one of its name left, or was left alone as long as the class was at fault
        for one, manifest in changed.items():
            self._add("object", one)
            if manifest is None:
                self.blame(key, one, None)
        if plan.maps.keys() != plan.noted:
            for gone in plan.noted - plan.maps.keys():
                self._maps.pop(gone, None)
            plan.noted = set(plan.maps)
            self._maps.update(dict.fromkeys(plan.maps, key))

    def _drop(self, key: Key) -> None:
        """Clean up after a Gateway that is gone, or not ours any more."""
        plan = self.plans.pop(key, None)
        if plan is None:
            return
        self._hands.prober.forget(key)
        self._status_written.pop(key, None)
        self.faults.pop(key, None)
        self._hands.objects.drop(key)
        for map_key in plan.noted:
            self._maps.pop(map_key, None)
        self._sweep(key)
        self._add("finalizer", self._sources.class_key)

    def _sweep(self, gateway: Key) -> None:
        for owned in self._sources.live_of(gateway):
            self._add("object", owned)

    def _take_owned(self, key: Key) -> None:
        live = self._sources.live.get(key)
        if (gateway := self._maps.get(key)) is not None:
            plan = self.plans[gateway]
            if not (isinstance(live, LiveMap) and plan.holds(key, live)):
                plan.doubt(key)
                self._add("routing", gateway)
        else:
            self._add("object", key)

    def _probe_soon(self, gateway: Key) -> None:
        self._hands.prober.hurry(gateway)
        self._add("probe", gateway)

    def _add(self, what: str, key: Key, *, delay: float = 0.0) -> None:
        if not self._is_working:  # whoever begins to lead compares everything
            return
        job = Job(what, key)  # type: ignore[arg-type]
        self._queue.add(job, job.urgency, delay=delay)

    # -- what is to be done --------------------------------------------------------------

    async def do(self, job: Job) -> None:
        """Do one job."""
        key, hands = job.key, self._hands
        if job.what == "routing":
            await self._do_routing(key)
        elif job.what == "object":
            await self._do_object(key)
        elif job.what == "probe":
            await self._probe(key)
        elif job.what == "finalizer":
            await hands.finalizer.bring(key, in_use=bool(self.plans))
        elif key in hands.statuses:
            await self._write_status(key)

    async def _do_routing(self, key: Key) -> None:
        plan = self.plans.get(key)
        if plan is None:
            return
        try:
            await self._hands.routing.bring(plan)
        finally:
            if key not in self.plans:  # it went meanwhile, before what was just written could be seen
                self._sweep(key)

    def add_surplus(self, key: Key) -> None:
        """Have an object looked at that is not wanted any more."""
        self._add("object", key)

    async def _do_object(self, key: Key) -> None:
        if key in self._hands.objects:
            await self._bring_object(key)
        elif self._is_unwanted(key):
            await self._hands.objects.remove(key)

    async def _bring_object(self, key: Key) -> None:
        before = self._sources.live.get(key)
        plan = self.plans.get(self._hands.objects.gateway_of(key) or key)
        if before is None and plan is not None and plan.objects is None:
            return  # a class at fault begins nothing
        try:
            await self._hands.objects.bring(key)
        finally:
            gateway = self._hands.objects.gateway_of(key)
            if gateway is not None and key.kind == "Service" and self._sources.live.get(key) is not before:
                self._probe_soon(gateway)

    def _is_unwanted(self, key: Key) -> bool:
        """Whether a live object has to go: one that we made, in the place where we make it.

        While a class is at fault nothing of its Gateways goes. A Service stays with its Gateway also
        when there is no listener to serve: it has an address. What has an owner that we don't see is
        the garbage collector's: we would not see it either if its kind was not served for a while.
        """
        live = self._sources.live.get(key)
        if live is None or key in self._maps or not live.is_ours:
            return False
        gateway = live.gateway
        if not names.belongs(*key, gateway.namespace, gateway.name):
            return False
        plan = self.plans.get(gateway)
        if plan is None:
            return gateway in self._sources.stated or not live.owner
        return plan.objects is not None and key.kind != "Service" and not self._is_indexed(key, gateway)

    def _is_indexed(self, key: Key, gateway: Key) -> bool:
        """Whether pods still look for a shard, as the index that they read names it."""
        number = key.name.removeprefix(f"{names.config_map(gateway.name)}-")
        is_shard = key.kind == "ConfigMap" and number.isdigit()
        return is_shard and int(number) < (self._shards_in_use(gateway) or 0)

    async def _write_status(self, key: Key) -> None:
        if key.kind in COUNTING:
            wait = self._status_written.get(key, 0.0) + COUNTING_STATUS_SECONDS - time.monotonic()
            if wait > 0:
                self._add("status", key, delay=wait)
                return
            if self._hands.statuses.speaks_of(key):
                self._status_written[key] = time.monotonic()
        await self._hands.statuses.write(key)

    # -- whether a Gateway is programmed -------------------------------------------------

    async def _probe(self, key: Key) -> None:
        """Ask the ready pods of a Gateway what they serve, and again later."""
        plan = self.plans.get(key)
        if plan is None:
            return
        reports = await self._hands.prober.ask(key)
        if self.plans.get(key) is not plan:
            return
        faults = tuple(dict.fromkeys(self.faults.get(key, {}).values()))
        probe = self._hands.prober.judge(key, plan, reports, faults)
        if probe.is_news:
            for stated in self._hands.statuses.about(key):
                self._add("status", stated)
        if probe.again is not None:
            self._add("probe", key, delay=probe.again)

    # -- what could not be done ----------------------------------------------------------

    def gateway_of(self, job: Job) -> Key | None:
        """Return the Gateway whose traffic depends on a job."""
        if job.what == "routing":
            return job.key
        return self._hands.objects.gateway_of(job.key) if job.what == "object" else None

    def blame(self, gateway: Key, key: Key, message: str | None) -> bool:
        """Note what stands against a part of a Gateway, None for nothing; return whether that is news."""
        faults = self.faults.get(gateway, {})
        if gateway not in self.plans or faults.get(key) == message:
            return False
        faults = {one: why for one, why in (faults | {key: message}).items() if why is not None}
        if faults:
            self.faults[gateway] = faults
        else:
            del self.faults[gateway]
        self._probe_soon(gateway)
        return True


def _age(gateway: api.Gateway) -> tuple[str, int]:
    """Return what tells a Gateway from how it was before, and from another one of its name before it."""
    return gateway.metadata.uid, gateway.metadata.generation
