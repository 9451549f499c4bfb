"""The core: a batch of changes in, jobs out; results of jobs back in."""

import json
from base64 import b64decode, b64encode

import msgspec
import pytest

from varnish_gateway import api
from varnish_gateway.api import Key
from varnish_gateway.emit import names
from varnish_gateway.emit.manifests import Installation
from varnish_gateway.ir import GatewayDelta, wire
from varnish_gateway.operator.observe.changes import ChangeCollector
from varnish_gateway.operator.observe.inputs import ObservedInput
from varnish_gateway.operator.observe.owned import OwnedObject, OwnedSecret, decode_object, decode_secret
from varnish_gateway.operator.observe.pods import GatewayPod
from varnish_gateway.operator.observe.state import ObservedState
from varnish_gateway.operator.plan.invalidation.progress import RoundReport
from varnish_gateway.operator.plan.jobs import Job, Jobs
from varnish_gateway.operator.plan.reconciler import Reconciler
from varnish_gateway.operator.plan.results import JobResult, ProbeReports
from varnish_gateway.operator.status.answers import InvalidationAnswer
from varnish_gateway.operator.status.tracker import FIRST_SECONDS
from varnish_gateway.translate import Translator
from varnish_gateway.translate.options import CONTROLLER

CLASS = Key("GatewayClass", "", "varnish")
GATEWAY = Key("Gateway", "shop", "gw")
ROUTE = Key("HTTPRoute", "shop", "tea")
SERVICE = Key("Service", "shop", "gw-vgw")
SECRET = Key("Secret", "shop", "gw-vgw-tls")


class Core:
    """A Reconciler with the observed state that it reads."""

    def __init__(self, token_key: bytes = b"key") -> None:
        self.observed = ObservedState("varnish")
        self.changes = ChangeCollector(self.observed, lambda: None)
        translator = Translator(class_name="varnish", only_class=True, addresses="load-balancer")
        self.reconciler = Reconciler(translator, Installation(image="i"), self.observed, token_key)

    def reconcile(self, *inputs: ObservedInput, deleted: tuple[Key, ...] = ()) -> Jobs:
        keys = [Key(one.obj.kind, one.obj.metadata.namespace, one.obj.metadata.name) for one in inputs]
        self.changes.on_inputs({**dict(zip(keys, inputs, strict=True)), **dict.fromkeys(deleted)})
        return self.drain()

    def drain(self) -> Jobs:
        batch = self.changes.drain()
        return self.reconciler.reconcile(batch, self.reconciler.translate(batch.inputs))


def observed_input(kind: type[api.Object], key: Key, spec: dict, *, version: str = "1") -> ObservedInput:
    metadata = {"name": key.name, "namespace": key.namespace, "uid": f"u-{key.name}", "generation": int(version)}
    return ObservedInput(msgspec.convert({"metadata": metadata, "spec": spec}, kind), version, b"null", False)


def gateway_class() -> ObservedInput:
    return observed_input(api.GatewayClass, CLASS, {"controllerName": CONTROLLER})


def gateway(version: str = "1", class_name: str = "varnish") -> ObservedInput:
    listener = {"name": "http", "port": 80, "protocol": "HTTP"}
    return observed_input(
        api.Gateway, GATEWAY, {"gatewayClassName": class_name, "listeners": [listener]}, version=version
    )


def route(version: str = "1") -> ObservedInput:
    return observed_input(api.HTTPRoute, ROUTE, {"parentRefs": [{"name": GATEWAY.name}]}, version=version)


def owned(owner: str = "", version: str = "1") -> OwnedObject:
    metadata = {
        "name": SERVICE.name,
        "namespace": SERVICE.namespace,
        "uid": "u",
        "resourceVersion": version,
        "labels": names.labels("shop", "gw", "varnish"),
        "annotations": {names.GATEWAY_ANNOTATION: "gw"},
        "managedFields": [{"manager": names.GATEWAY_MANAGER, "operation": "Apply"}],
        "ownerReferences": [{"uid": owner, "controller": True}] if owner else [],
    }
    return decode_object(json.dumps({"metadata": metadata}).encode())


@pytest.fixture
def core() -> Core:
    """Reconcile a Gateway of our class, with a route."""
    made = Core()
    made.reconcile(gateway_class(), gateway(), route())
    return made


def actions(jobs: Jobs) -> set[tuple[str, str]]:
    return {(job.action, job.key.kind) for job in jobs}


def test_new_gateway_has_its_routing_written_its_objects_applied_and_its_pods_probed():
    jobs = Core().reconcile(gateway_class(), gateway())
    assert actions(jobs) >= {
        ("routing", "Gateway"),
        ("object", "Deployment"),
        ("object", "Service"),
        ("probe", "Gateway"),
        ("status", "Gateway"),
        ("status", "GatewayClass"),
        ("finalizer", "GatewayClass"),
    }


def test_changed_route_costs_routing_and_its_own_status(core):
    changed = observed_input(
        api.HTTPRoute, ROUTE, {"parentRefs": [{"name": GATEWAY.name}], "hostnames": ["tea.example"]}, version="2"
    )
    assert list(core.reconcile(changed)) == [Job("routing", GATEWAY), Job("status", ROUTE)]


def test_deleted_gateway_leaves_its_observed_objects_as_jobs(core):
    core.changes.on_owned({SERVICE: owned()})
    core.drain()
    jobs = core.reconcile(deleted=(GATEWAY,))
    assert {Job("object", SERVICE), Job("finalizer", CLASS)} <= jobs.keys()
    assert not core.reconciler.gateways


def test_gateway_created_and_deleted_before_its_batch_is_applied_leaves_nothing():
    """The operator translates a second batch while it reads referenced objects."""
    core = Core()
    core.changes.on_inputs({CLASS: gateway_class(), GATEWAY: gateway()})
    first = core.changes.drain()
    created = core.reconciler.translate(first.inputs)
    core.changes.on_inputs({GATEWAY: None})
    second = core.changes.drain()
    deleted = core.reconciler.translate(second.inputs)
    core.reconciler.reconcile(first, created)
    core.reconciler.reconcile(second, deleted)
    assert not core.reconciler.gateways
    assert not list(core.reconciler.objects.keys())


@pytest.mark.parametrize(
    ("owner", "is_observed", "action"),
    [
        pytest.param("uid of gw", True, "delete", id="Gateway left our class"),
        pytest.param("uid of gw", False, None, id="owner unobserved: left to the garbage collector"),
        pytest.param("", False, "delete", id="no owner: nothing else deletes it"),
    ],
)
def test_object_without_a_gateway_of_ours_is_deleted_unless_its_owner_is_unobserved(owner, is_observed, action):
    core = Core()
    core.changes.on_owned({SERVICE: owned(owner)})
    core.reconcile(*([gateway(class_name="another")] if is_observed else []))
    assert core.reconciler.object_action(SERVICE) == action


def test_object_that_became_surplus_while_it_was_written_is_compared_again(core):
    job, result = Job("object", SERVICE), JobResult(touched={SERVICE})
    assert not core.reconciler.on_result(job, result)
    core.reconcile(deleted=(GATEWAY,))
    assert list(core.reconciler.on_result(job, result)) == [job]


def test_probe_result_updates_the_status_and_schedules_the_next_probe(core):
    probe = ProbeReports(core.reconciler.gateways[GATEWAY], {"pod": "no answer"}, 0.0)
    jobs = core.reconciler.on_result(Job("probe", GATEWAY), JobResult(probe=probe))
    assert jobs == {Job("status", GATEWAY): 0.0, Job("probe", GATEWAY): FIRST_SECONDS}


def test_object_rejected_in_another_namespace_is_reported_and_is_no_fault_of_the_gateway(core):
    """Without its RoleBinding, pods find no endpoints there; every other route is served."""
    binding = Key("RoleBinding", "tea", "shop-gw")
    core.reconciler.set_fault(GATEWAY, binding, "the policy denies it")
    probe = ProbeReports(core.reconciler.gateways[GATEWAY], {"pod": "no answer"}, 0.0)
    core.reconciler.on_result(Job("probe", GATEWAY), JobResult(probe=probe))
    statuses = core.reconciler.statuses
    complete = statuses.with_readiness(GATEWAY, statuses.get(GATEWAY))
    programmed = next(one for one in complete.conditions if one.type == "Programmed")
    assert programmed.reason != "Invalid"
    assert f"{binding}: the policy denies it" in programmed.message


def test_route_that_no_config_map_can_hold_is_left_out_and_reported(core):
    desired = core.reconciler.gateways[GATEWAY]
    huge = wire.Route(namespace="shop", name="huge", attachments=(), rules=(wire.Rule(name="x" * 1_000_000),))
    desired.update(GatewayDelta(routes={Key("HTTPRoute", "shop", "huge"): huge}))
    assert all(len(shard.text) < 1_000_000 for shard in desired.routing.shards.values())
    probe = ProbeReports(desired, {"pod": "no answer"}, 0.0)
    core.reconciler.on_result(Job("probe", GATEWAY), JobResult(probe=probe))
    statuses = core.reconciler.statuses
    complete = statuses.with_readiness(GATEWAY, statuses.get(GATEWAY))
    programmed = next(one for one in complete.conditions if one.type == "Programmed")
    assert "; shop/huge: not served, because these routes" in programmed.message


def test_probe_result_of_a_recreated_gateway_is_ignored(core):
    probe = ProbeReports(core.reconciler.gateways[GATEWAY], {"pod": "no answer"}, 0.0)
    core.reconcile(deleted=(GATEWAY,))
    core.reconcile(gateway())
    assert not core.reconciler.on_result(Job("probe", GATEWAY), JobResult(probe=probe))


def test_fault_probes_the_gateway_once_and_again_when_it_is_gone(core):
    probing = {Job("probe", GATEWAY): 0.0}
    assert core.reconciler.set_fault(GATEWAY, SERVICE, "rejected") == probing
    assert not core.reconciler.set_fault(GATEWAY, SERVICE, "rejected")
    assert core.reconciler.set_fault(GATEWAY, SERVICE, None) == probing
    assert not core.reconciler.faults


def test_job_that_was_too_early_runs_again_after_its_delay(core):
    job = Job("status", GATEWAY)
    assert core.reconciler.statuses.delay(GATEWAY, now=10.0) == 0.0
    wait = core.reconciler.statuses.delay(GATEWAY, now=10.05)
    assert wait == pytest.approx(0.15)
    assert core.reconciler.on_result(job, JobResult(retry_after=wait)) == {job: wait}


def test_new_leader_compares_everything(core):
    core.changes.on_owned({SERVICE: owned()})
    core.drain()
    jobs = core.reconciler.resync()
    assert {Job("routing", GATEWAY), Job("probe", GATEWAY), Job("object", SERVICE), Job("status", ROUTE)} <= jobs.keys()
    assert core.reconciler.gateways[GATEWAY].routing.dirty == {0}


# -- tokens and invalidations ----------------------------------------------------------------


def stored_secret(token: str, owner: str = "u-gw") -> OwnedSecret:
    metadata = {
        "name": "gw-vgw-tls",
        "namespace": "shop",
        "uid": "u",
        "resourceVersion": "1",
        "labels": names.labels("shop", "gw", "varnish"),
        "annotations": {names.GATEWAY_ANNOTATION: "gw"},
        "managedFields": [{"manager": names.GATEWAY_MANAGER, "operation": "Apply"}],
        "ownerReferences": [{"uid": owner, "controller": True}],
    }
    data = {names.TOKEN: b64encode(token.encode()).decode()}
    return decode_secret(json.dumps({"metadata": metadata, "data": data}).encode())


def desired_token(core: Core) -> str:
    data = core.reconciler.objects.get(SECRET)["data"]
    token = b64decode(data[names.TOKEN]).decode()
    assert token == core.reconciler.gateways[GATEWAY].token
    return token


def test_new_gateway_has_a_token_that_depends_on_the_secret_key_of_the_operator(core):
    assert len(desired_token(core)) == 64
    other = Core(b"another")
    other.reconcile(gateway_class(), gateway())
    assert desired_token(other) != desired_token(core)


def test_stored_token_stays_when_another_operator_starts_or_takes_over(core):
    starting = Core()
    starting.changes.on_owned({SECRET: stored_secret("0a" * 32)})
    starting.reconcile(gateway_class(), gateway())
    assert desired_token(starting) == "0a" * 32

    core.changes.on_owned({SECRET: stored_secret("0b" * 32)})  # the leader wrote it while this one stood by
    core.drain()
    core.reconciler.resync()
    assert desired_token(core) == "0b" * 32


def test_token_of_an_earlier_gateway_of_the_name_is_not_used_again():
    core = Core()
    core.changes.on_owned({SECRET: stored_secret("0a" * 32, owner="another")})
    core.reconcile(gateway_class(), gateway())
    assert desired_token(core) != "0a" * 32


def test_invalidation_becomes_a_job_and_its_answers_a_status(core):
    key = Key("VarnishCacheInvalidation", "shop", "one")
    spec = {"gatewayRef": {"name": "gw"}, "everything": True}
    jobs = core.reconcile(observed_input(api.VarnishCacheInvalidation, key, spec))
    assert jobs[Job("invalidate", key)] == 0.0
    assert core.reconciler.statuses.get(key).phase == "Pending"
    assert Job("invalidate", key) in core.reconciler.resync()

    pod = GatewayPod("pod", GATEWAY, "192.0.2.1", is_ready=True)
    core.changes.on_pods({Key("Pod", "shop", "pod"): pod})
    assert Job("invalidate", key) in core.drain()
    sent = core.reconciler.invalidations.round(key)
    assert (sent.pods, sent.token) == ((pod,), desired_token(core))
    report = RoundReport(sent, {"pod": InvalidationAnswer((5,))}, 1.0)
    followed = core.reconciler.on_result(Job("invalidate", key), JobResult(round=report))
    assert Job("status", key) in followed
    assert core.reconciler.statuses.get(key).objects == 5

    core.reconcile(deleted=(key,))
    assert key not in core.reconciler.statuses


def test_invalidation_that_waits_for_its_gateway_or_its_class_is_looked_at_when_that_comes():
    key = Key("VarnishCacheInvalidation", "shop", "one")
    waiting = observed_input(api.VarnishCacheInvalidation, key, {"gatewayRef": {"name": "gw"}, "everything": True})
    core = Core()
    core.reconcile(gateway_class(), waiting)
    assert Job("invalidate", key) in core.reconcile(gateway())
    assert Job("invalidate", key) in core.reconcile(deleted=(GATEWAY,))
    without_class = Core()
    without_class.reconcile(gateway(), waiting)
    assert Job("invalidate", key) in without_class.reconcile(gateway_class())
