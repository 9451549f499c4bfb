"""The core of the operator: from changes to jobs.

In:   the observed state and batches of changes; results of jobs.
Out:  desired state, and the jobs that compare it with the observed state.
Pure: no I/O, no clock. Executors read the desired state and report back by JobResult.
A change costs what it touches: nothing here goes through all Gateways but ``resync``.
"""

import hmac
from collections.abc import Collection, Mapping
from hashlib import sha256
from typing import Literal

from msgspec import UNSET

from varnish_gateway import api, ir
from varnish_gateway.api import Key
from varnish_gateway.emit import names
from varnish_gateway.emit.manifests import Installation
from varnish_gateway.ir.capabilities import LATER_PORTS
from varnish_gateway.operator.observe.owned import OwnedConfigMap
from varnish_gateway.operator.observe.state import Batch, ObservedState
from varnish_gateway.operator.plan.gateway import DesiredGateway
from varnish_gateway.operator.plan.invalidation.invalidations import Invalidations
from varnish_gateway.operator.plan.jobs import Job, Jobs
from varnish_gateway.operator.plan.negotiation import Negotiation
from varnish_gateway.operator.plan.objects import DesiredObjects
from varnish_gateway.operator.plan.results import JobResult, Postponed, ProbeReports
from varnish_gateway.operator.plan.statuses import DesiredStatuses
from varnish_gateway.operator.status.documents import is_programmed
from varnish_gateway.operator.status.readiness import Issues
from varnish_gateway.operator.status.tracker import ReadinessTracker, Situation
from varnish_gateway.translate import Translator
from varnish_gateway.translate.gateway.parameter_use import ParameterUse

NOTICE_SECONDS = 60.0
"""How long parameters may wait for their class before a notice: users apply one after the other."""


class Reconciler:
    """``gateways`` are those of our class. ``faults`` are objects that the API server rejected, by Gateway.

    ``postponed`` are Gateways whose pods wait to be replaced. ``parameters`` knows which ones no class references.
    ``token_key`` is the secret that tokens of new Gateways are derived from.
    """

    def __init__(
        self, translator: Translator, installation: Installation, observed: ObservedState, token_key: bytes = b""
    ) -> None:
        self._translator = translator
        self._token_key = token_key
        self._installation = installation
        self._observed = observed
        self._inputs: dict[Key, api.Gateway] = {}  # every Gateway, as it was last translated
        self._config_maps: dict[Key, Key] = {}  # ConfigMap → Gateway
        self._tracker = ReadinessTracker()
        self.negotiation = Negotiation(observed)
        self.gateways: dict[Key, DesiredGateway] = {}
        self.objects = DesiredObjects()
        self.parameters = ParameterUse()
        self.postponed: dict[Key, Postponed] = {}
        self.statuses = DesiredStatuses(
            observed, translator.listener_sets, self._tracker.readiness, self._sockets_of, self.postponed
        )
        self.invalidations = Invalidations(observed, self.gateways, self.statuses)
        self.faults: dict[Key, dict[Key, str]] = {}

    # -- changes -------------------------------------------------------------------------

    def translate(self, inputs: Mapping[Key, api.Object | None]) -> ir.Delta:
        """Translate changed inputs. ``reconcile`` applies the result, so nothing is written before that."""
        return self._translator.update(inputs) if inputs else ir.Delta()

    def referenced(self, kind: str) -> Collection[Key]:
        """Return the objects of a kind that translation depends on."""
        return self._translator.referenced(kind)

    def reconcile(self, batch: Batch, delta: ir.Delta) -> Jobs:
        """Apply a batch and its translation to the desired state; return the jobs that follow."""
        jobs = Jobs()
        for key, obj in batch.inputs.items():
            self._apply_input(jobs, key, obj, delta)
            jobs.add("notice", *self.parameters.update(key, obj), delay=NOTICE_SECONDS)
        for key, changes in delta.gateways.items():
            if changes is None:
                self._drop(jobs, key)
            else:
                self._apply_changes(jobs, key, changes)
        for key, status in delta.statuses.items():
            self.statuses.update(key, status)
            jobs.add("status", key)
        if self._observed.class_key in batch.stored:
            jobs.add("finalizer", self._observed.class_key)
        self._compare_statuses(jobs, batch)
        for key in batch.owned:
            self._compare_owned(jobs, key)
        for gateway in batch.reachability & self.gateways.keys():
            self._probe_soon(jobs, gateway)
        self.invalidations.wake(jobs, batch.reachability)
        self._end_migrations(jobs, batch)
        return jobs

    def _end_migrations(self, jobs: Jobs, batch: Batch) -> None:
        """Rebuild Gateways whose pods may have stopped reading the Secret of an earlier version."""
        owned = (self._observed.owned.get(key) for key in batch.owned)
        for key in batch.reachability | {one.gateway for one in owned if one is not None}:
            gateway = self.gateways.get(key)
            if gateway is not None and gateway.has_former_secret != self._observed.needs_former_secret(
                key, gateway.uid
            ):
                self._rebuild(jobs, key, gateway)

    def resync(self) -> Jobs:
        """Compare everything: this operator starts to lead."""
        jobs = Jobs()
        jobs.add("finalizer", self._observed.class_key)
        self._withdraw_leftovers()
        for key, gateway in self.gateways.items():
            gateway.routing.mark_dirty()
            gateway.routing.resize(self._observed.shards_in_use(key))
            gateway.express(self._observed.capabilities_in_use(key))
            # An operator of an earlier version may have led until now.
            gateway.former = self._observed.former_kinds(key, gateway.uid)
            self._rebuild(jobs, key, gateway)
            jobs.add("routing", key)
            jobs.add("probe", key)
        jobs.add_all("object", {*self.objects.keys(), *self._observed.owned} - self._config_maps.keys())
        jobs.add_all("status", self.statuses.keys())
        self.invalidations.resync(jobs)
        jobs.add("notice", *self.parameters.unreferenced)  # they have waited for their class already
        return jobs

    def _apply_input(self, jobs: Jobs, key: Key, obj: api.Object | None, delta: ir.Delta) -> None:
        if key.kind == api.Gateway.kind:
            self.invalidations.wake(jobs, [key])
        if isinstance(obj, api.Gateway):
            self._inputs[key] = obj
            if key in self.gateways:
                self._replace_gateway(jobs, key, obj, is_rebuilt_later=key in delta.gateways)
        elif key.kind == api.VarnishCacheInvalidation.kind:
            self.invalidations.update(jobs, key, obj)
        elif obj is None:
            self._inputs.pop(key, None)
            if key in self.objects:  # a Service of the user that blocked ours is deleted
                jobs.add("object", key)

    def _replace_gateway(self, jobs: Jobs, key: Key, obj: api.Gateway, *, is_rebuilt_later: bool) -> None:
        gateway = self.gateways[key]
        is_next = _generation(gateway.gateway) != _generation(obj)
        is_recreated = gateway.uid != obj.metadata.uid
        gateway.gateway = obj
        if is_recreated:  # the objects of the earlier one are deleted, so their names keep nothing
            gateway.former = self._observed.former_kinds(key, gateway.uid)
        if is_next:
            self._tracker.invalidate(key)  # it is about the previous generation
            jobs.add("routing", key)
            self._probe_soon(jobs, key)
        if not is_rebuilt_later:
            self._rebuild(jobs, key, gateway)

    def _apply_changes(self, jobs: Jobs, key: Key, changes: ir.GatewayDelta) -> None:
        gateway = self.gateways.get(key)
        if gateway is None:
            shards = self._observed.shards_in_use(key) or 1
            understood = self._observed.capabilities_in_use(key)
            gateway = self.gateways[key] = DesiredGateway(self._inputs[key], self._installation, shards, understood)
            gateway.former = self._observed.former_kinds(key, gateway.uid)
            jobs.add("finalizer", self._observed.class_key)
            self.invalidations.wake(jobs, [key])
        sockets = gateway.own_sockets
        gateway.update(changes)
        if not gateway.own_sockets <= sockets:  # no pod has reported about the new ones
            self._tracker.invalidate(key)
        self._rebuild(jobs, key, gateway)
        jobs.add("routing", key)
        if changes.listeners is not None or changes.tls is not None or changes.user_vcl is not UNSET:
            self._probe_soon(jobs, key)

    def _rebuild(self, jobs: Jobs, key: Key, gateway: DesiredGateway) -> None:
        """Rebuild the Gateway's objects where their inputs changed."""
        was_invalid = gateway.objects is None
        gateway.has_former_secret = self._observed.needs_former_secret(key, gateway.uid)
        gateway.token = self._observed.token_in_use(key, gateway.uid) or self._new_token(gateway.uid)
        changed = gateway.rebuild()
        self.objects.update(key, changed)
        if was_invalid and gateway.objects is not None:
            # Leftovers of a deleted Gateway of the name, or objects kept while the class was invalid.
            jobs.add_all("object", self._observed.owned_by(key))
        for one, manifest in changed.items():
            jobs.add("object", one)
            if manifest is None:
                jobs.merge(self.set_fault(key, one, None))
        self._index_config_maps(key, gateway)

    def _new_token(self, uid: str) -> str:
        """Return the token of a Gateway that has none. Once it is stored, later leaders keep it."""
        return hmac.new(self._token_key, uid.encode(), sha256).hexdigest()

    def _index_config_maps(self, key: Key, gateway: DesiredGateway) -> None:
        config_maps = gateway.routing.config_maps
        if config_maps is gateway.indexed_config_maps:
            return
        for removed in gateway.indexed_config_maps.keys() - config_maps.keys():
            self._config_maps.pop(removed, None)
        self._config_maps.update(dict.fromkeys(config_maps, key))
        gateway.indexed_config_maps = config_maps

    def _drop(self, jobs: Jobs, key: Key) -> None:
        """Clean up after a Gateway that was deleted or left our class."""
        gateway = self.gateways.pop(key, None)
        if gateway is None:
            return
        self._tracker.forget(key)
        self.negotiation.forget(key)
        self.statuses.forget_writes(key)
        self.faults.pop(key, None)
        self.postponed.pop(key, None)
        self.objects.drop(key)
        for config_map in gateway.indexed_config_maps:
            self._config_maps.pop(config_map, None)
        jobs.add_all("object", self._observed.owned_by(key))
        jobs.add("finalizer", self._observed.class_key)

    def _compare_statuses(self, jobs: Jobs, batch: Batch) -> None:
        """Add jobs for objects whose stored status may differ from the desired one."""
        for key, obj in batch.inputs.items():
            if isinstance(obj, api.Gateway) and key not in self.gateways:
                jobs.add_all("object", self._observed.owned_by(key))  # it left our class, perhaps unobserved
        if batch.has_released:
            self._withdraw_leftovers()
            jobs.add_all("status", self.statuses.keys())
        for key in batch.stored:
            if key in self.statuses or self.statuses.withdraw_leftover(key):
                jobs.add("status", key)

    def _compare_owned(self, jobs: Jobs, key: Key) -> None:
        gateway_key = self._config_maps.get(key)
        if gateway_key is None:
            jobs.add("object", key)
            return
        self._compare_capabilities(jobs, gateway_key)
        gateway, stored = self.gateways[gateway_key], self._observed.owned.get(key)
        if not (isinstance(stored, OwnedConfigMap) and gateway.matches(key, stored)):
            gateway.routing.mark_dirty(key)
            jobs.add("routing", gateway_key)

    def _compare_capabilities(self, jobs: Jobs, key: Key) -> None:
        """Decide again about a Deployment whose ports wait for its pods, or go without them."""
        gateway = self.gateways.get(key)
        pods_open_ports = LATER_PORTS.name in self._observed.capabilities_in_use(key)
        if gateway is not None and gateway.pods_open_ports != pods_open_ports:
            gateway.pods_open_ports = pods_open_ports
            jobs.add("object", gateway.deployment)

    def _withdraw_leftovers(self) -> None:
        for key in self._observed.inputs:
            self.statuses.withdraw_leftover(key)

    def _probe_soon(self, jobs: Jobs, gateway: Key) -> None:
        self._tracker.hasten(gateway)
        jobs.add("probe", gateway)

    # -- decisions that executors ask for ------------------------------------------------

    def object_action(self, key: Key) -> Literal["apply", "delete"] | None:
        """Return what to do about a generated object, by what is desired and observed now."""
        if key in self.objects:
            gateway = self.gateways.get(self.objects.gateway_of(key) or key)
            is_invalid = gateway is not None and gateway.objects is None
            # An invalid class starts nothing, and stops nothing that runs.
            return None if is_invalid and key not in self._observed.owned else "apply"
        return "delete" if self._is_surplus(key) else None

    def _is_surplus(self, key: Key) -> bool:
        """Whether to delete an object: one that we applied, at a name that we generate.

        While a class is invalid nothing of its Gateways is deleted. A Service stays with its Gateway even
        without a listener: it holds an address. An object with an owner that is not observed is left to the
        garbage collector: we would not observe the owner either while its kind isn't served.
        """
        owned = self._observed.owned.get(key)
        if owned is None or key in self._config_maps or not owned.is_applied_by_us:
            return False
        gateway_key = owned.gateway
        if not names.belongs(*key, gateway_key.namespace, gateway_key.name):
            return False
        gateway = self.gateways.get(gateway_key)
        if gateway is None:
            return gateway_key in self._observed.inputs or not owned.owner
        is_kept = key == gateway.service or self._is_indexed(key, gateway_key)
        return gateway.objects is not None and not is_kept

    def _is_indexed(self, key: Key, gateway: Key) -> bool:
        """Whether the stored index names a shard, so that pods still read it."""
        number = key.name.removeprefix(f"{names.config_map(gateway.name)}-")
        is_shard = key.kind == "ConfigMap" and number.isdigit()
        return is_shard and int(number) < (self._observed.shards_in_use(gateway) or 0)

    def _sockets_of(self, gateway: Key, listener_set: Key) -> Mapping[str, str]:
        """Return the sockets of a ListenerSet by listener."""
        found = self.gateways.get(gateway)
        return found.sets.get(listener_set, {}) if found is not None else {}

    def gateway_of(self, job: Job) -> Key | None:
        """Return the Gateway whose traffic depends on a job."""
        if job.action == "routing":
            return job.key
        return self.objects.gateway_of(job.key) if job.action == "object" else None

    # -- results -------------------------------------------------------------------------

    def on_result(self, job: Job, result: JobResult) -> Jobs:
        """Apply what an executor reports about a job, whether it succeeded or not; return the jobs that follow."""
        jobs = Jobs()
        if result.retry_after:
            jobs.add(job.action, job.key, delay=result.retry_after)
        for key in result.touched:
            if key not in self.objects and key not in self._config_maps:
                jobs.add("object", key)  # it became surplus while it was being written
        for key in result.withdrawn:
            self.statuses.on_withdrawn(key)
        if job.key.kind == "Deployment" and (gateway := self.gateway_of(job)) is not None:
            self._set_postponed(jobs, gateway, result.postponed)
        if job.action == "routing":
            self._compare_capabilities(jobs, job.key)
        if result.probe is not None:
            self._apply_probe(jobs, job.key, result.probe)
        if result.round is not None:
            self.invalidations.on_report(jobs, job.key, result.round)
        return jobs

    def _set_postponed(self, jobs: Jobs, gateway: Key, postponed: Postponed | None) -> None:
        if postponed == self.postponed.get(gateway):
            return
        if postponed is None:
            del self.postponed[gateway]
        else:
            self.postponed[gateway] = postponed
        self._probe_soon(jobs, gateway)

    def _apply_probe(self, jobs: Jobs, key: Key, probe: ProbeReports) -> None:
        gateway = self.gateways.get(key)
        if gateway is not probe.gateway:
            return
        self._negotiate(jobs, key, probe)
        service, observed = self._observed.owned.get(gateway.service), self._observed.inputs.get(key)
        situation = Situation(
            gateway.expected,
            probe.reports,
            service.document if service is not None else None,
            self._issues(key),
            was_programmed=observed is not None and is_programmed(observed.status, gateway.gateway.metadata.generation),
            has_unreported=any(isinstance(report, str) for report in probe.starting.values()),
        )
        outcome = self._tracker.on_reports(key, situation, probe.at)
        if outcome.has_changed:
            jobs.add_all("status", self.statuses.affected_by(key))
        if outcome.next_probe is not None:
            jobs.add("probe", key, delay=outcome.next_probe)

    def _negotiate(self, jobs: Jobs, key: Key, probe: ProbeReports) -> None:
        """Express the Gateway's routing by what its pods report to understand."""
        gateway, reports = probe.gateway, {**probe.reports, **probe.starting}
        understood = self.negotiation.on_reports(key, reports, gateway.routing.withholding.understood)
        if gateway.express(understood):
            self._rebuild(jobs, key, gateway)  # routes may take more room than before
            jobs.add("routing", key)

    def _issues(self, gateway: Key) -> Issues:
        """Return why objects can't be applied. Those in other namespaces concern only the routes to there."""
        faults = self.faults.get(gateway, {})
        own = dict.fromkeys(why for key, why in faults.items() if key.namespace == gateway.namespace)
        others = [f"{key}: {why}" for key, why in sorted(faults.items()) if key.namespace != gateway.namespace]
        more = [f"and {len(others) - 1} more objects in other namespaces"] if len(others) > 1 else []
        postponed = self.postponed.get(gateway)
        waiting = (postponed.message,) if postponed is not None else ()
        routing = self.gateways[gateway].routing
        unstored = (routing.remark,) if routing.remark else ()
        withheld = self.negotiation.message(gateway, routing.withholding.withheld)
        return Issues(tuple(own), (*others[:1], *more, *waiting, *unstored), withheld)

    def set_fault(self, gateway: Key, key: Key, message: str | None) -> Jobs:
        """Note why an object of a Gateway can't be applied, None if it can; return no jobs if that was known."""
        jobs = Jobs()
        faults = self.faults.get(gateway, {})
        if gateway not in self.gateways or faults.get(key) == message:
            return jobs
        faults = {one: why for one, why in (faults | {key: message}).items() if why is not None}
        if faults:
            self.faults[gateway] = faults
        else:
            del self.faults[gateway]
        self._probe_soon(jobs, gateway)
        return jobs


def _generation(gateway: api.Gateway) -> tuple[str, int]:
    """Return what identifies a spec: recreated Gateways count generations from 1 again."""
    return gateway.metadata.uid, gateway.metadata.generation
