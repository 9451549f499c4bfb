"""The core of the operator: from changes to jobs.

In:   the observed state and batches of changes; results of jobs.
Out:  desired state, and the jobs that compare it with the observed state.
Pure: no I/O, no clock. Executors read the desired state and report back by JobResult.
A change costs what it touches: nothing here goes through all Gateways but ``resync``.
"""

from collections.abc import Collection, Mapping
from typing import Literal

from msgspec import UNSET

from varnish_gateway import api, ir
from varnish_gateway.api import Key
from varnish_gateway.emit import names
from varnish_gateway.emit.manifests import Installation
from varnish_gateway.operator.observe.owned import OwnedConfigMap
from varnish_gateway.operator.observe.state import Batch, ObservedState
from varnish_gateway.operator.plan.gateway import DesiredGateway
from varnish_gateway.operator.plan.jobs import Job, Jobs
from varnish_gateway.operator.plan.objects import DesiredObjects
from varnish_gateway.operator.plan.results import JobResult, ProbeReports
from varnish_gateway.operator.plan.statuses import DesiredStatuses
from varnish_gateway.operator.status.documents import is_programmed
from varnish_gateway.operator.status.readiness import Issues
from varnish_gateway.operator.status.tracker import ReadinessTracker, Situation
from varnish_gateway.translate import Translator

POSTPONED = "an upgrade is pending: pods of the previous version serve until those of other Gateways are replaced"


class Reconciler:
    """``gateways`` are those of our class. ``faults`` are objects that the API server rejected, by Gateway."""

    def __init__(self, translator: Translator, installation: Installation, observed: ObservedState) -> None:
        self._translator = translator
        self._installation = installation
        self._observed = observed
        self._inputs: dict[Key, api.Gateway] = {}  # every Gateway, as it was last translated
        self._config_maps: dict[Key, Key] = {}  # ConfigMap → Gateway
        self._tracker = ReadinessTracker()
        self.gateways: dict[Key, DesiredGateway] = {}
        self.objects = DesiredObjects()
        self.statuses = DesiredStatuses(observed, translator.listener_sets, self._tracker.readiness)
        self.faults: dict[Key, dict[Key, str]] = {}
        self._postponed: set[Key] = set()  # Gateways whose pods wait for the rollouts of others

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
            # An operator of an earlier version may have led until now.
            gateway.former = self._observed.former_kinds(key, gateway.uid)
            self._rebuild(jobs, key, gateway)
            jobs.add("routing", key)
            jobs.add("probe", key)
        jobs.add_all("object", {*self.objects.keys(), *self._observed.owned} - self._config_maps.keys())
        jobs.add_all("status", self.statuses.keys())
        return jobs

    def _apply_input(self, jobs: Jobs, key: Key, obj: api.Object | None, delta: ir.Delta) -> None:
        if isinstance(obj, api.Gateway):
            self._inputs[key] = obj
            if key in self.gateways:
                self._replace_gateway(jobs, key, obj, is_rebuilt_later=key in delta.gateways)
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
            gateway = self.gateways[key] = DesiredGateway(self._inputs[key], self._installation, shards)
            gateway.former = self._observed.former_kinds(key, gateway.uid)
            jobs.add("finalizer", self._observed.class_key)
        sockets = gateway.sockets
        gateway.update(changes)
        if not gateway.sockets <= sockets:  # no pod has reported about the new ones
            self._tracker.invalidate(key)
        self._rebuild(jobs, key, gateway)
        jobs.add("routing", key)
        if changes.listeners is not None or changes.tls is not None or changes.user_vcl is not UNSET:
            self._probe_soon(jobs, key)

    def _rebuild(self, jobs: Jobs, key: Key, gateway: DesiredGateway) -> None:
        """Rebuild the Gateway's objects where their inputs changed."""
        was_invalid = gateway.objects is None
        gateway.has_former_secret = self._observed.needs_former_secret(key, gateway.uid)
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
        self.statuses.forget_writes(key)
        self.faults.pop(key, None)
        self._postponed.discard(key)
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
        gateway, stored = self.gateways[gateway_key], self._observed.owned.get(key)
        if not (isinstance(stored, OwnedConfigMap) and gateway.matches(key, stored)):
            gateway.routing.mark_dirty(key)
            jobs.add("routing", gateway_key)

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
        is_kept = key.kind == "Service" and gateway.shape is not None and key.name == gateway.shape.workload(key.kind)
        return gateway.objects is not None and not is_kept and not self._is_indexed(key, gateway_key)

    def _is_indexed(self, key: Key, gateway: Key) -> bool:
        """Whether the stored index names a shard, so that pods still read it."""
        number = key.name.removeprefix(f"{names.config_map(gateway.name)}-")
        is_shard = key.kind == "ConfigMap" and number.isdigit()
        return is_shard and int(number) < (self._observed.shards_in_use(gateway) or 0)

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
            self._set_postponed(jobs, gateway, is_postponed=result.is_postponed)
        if result.probe is not None:
            self._apply_probe(jobs, job.key, result.probe)
        return jobs

    def _set_postponed(self, jobs: Jobs, gateway: Key, *, is_postponed: bool) -> None:
        if is_postponed != (gateway in self._postponed):
            self._postponed ^= {gateway}
            self._probe_soon(jobs, gateway)

    def _apply_probe(self, jobs: Jobs, key: Key, probe: ProbeReports) -> None:
        gateway = self.gateways.get(key)
        if gateway is not probe.gateway:
            return
        service, observed = self._observed.service_of(key), self._observed.inputs.get(key)
        situation = Situation(
            gateway.expected,
            probe.reports,
            service.document if service is not None else None,
            self._issues(key),
            was_programmed=observed is not None and is_programmed(observed.status, gateway.gateway.metadata.generation),
        )
        outcome = self._tracker.on_reports(key, situation, probe.at)
        if outcome.has_changed:
            jobs.add_all("status", self.statuses.affected_by(key))
        if outcome.next_probe is not None:
            jobs.add("probe", key, delay=outcome.next_probe)

    def _issues(self, gateway: Key) -> Issues:
        """Return why objects can't be applied. Those in other namespaces concern only the routes to there."""
        faults = self.faults.get(gateway, {})
        own = dict.fromkeys(why for key, why in faults.items() if key.namespace == gateway.namespace)
        others = [f"{key}: {why}" for key, why in sorted(faults.items()) if key.namespace != gateway.namespace]
        more = [f"and {len(others) - 1} more objects in other namespaces"] if len(others) > 1 else []
        postponed = [POSTPONED] if gateway in self._postponed else []
        return Issues(tuple(own), (*others[:1], *more, *postponed))

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
