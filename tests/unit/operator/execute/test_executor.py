"""One job: what the executor does with an object, and what it remembers."""

import json
from types import SimpleNamespace

import msgspec
import pytest

from varnish_gateway import api
from varnish_gateway.api import Key
from varnish_gateway.emit.manifests import Installation
from varnish_gateway.kube.metrics import Metrics
from varnish_gateway.operator.execute.executor import Executor
from varnish_gateway.operator.execute.objects import ObjectWriter
from varnish_gateway.operator.observe.changes import ChangeCollector
from varnish_gateway.operator.observe.inputs import ObservedInput
from varnish_gateway.operator.observe.state import ObservedState
from varnish_gateway.operator.observe.watches import Watches
from varnish_gateway.operator.plan.jobs import Job, Jobs
from varnish_gateway.operator.plan.reconciler import Reconciler
from varnish_gateway.operator.plan.results import JobResult
from varnish_gateway.translate import Translator
from varnish_gateway.translate.options import CONTROLLER

CLASS = Key("GatewayClass", "", "varnish")
GATEWAY = Key("Gateway", "shop", "gw")


class StubWriter:
    """Accepts every apply, like an API server without other clients."""

    def __init__(self) -> None:
        self.deleted: list[Key] = []

    async def get(self, _: Key) -> None:
        return None

    async def apply(self, manifest: dict, *, manager: str) -> bytes:
        given = {"uid": "u", "resourceVersion": "1", "managedFields": [{"manager": manager, "operation": "Apply"}]}
        return json.dumps({**manifest, "metadata": manifest["metadata"] | given}).encode()

    async def delete(self, key: Key, _uid: str, _version: str) -> None:
        self.deleted.append(key)


class Operator:
    """An executor of objects with the core that plans its jobs."""

    def __init__(self) -> None:
        observed = ObservedState("varnish")
        watches = Watches(SimpleNamespace(metrics=Metrics()), observed)
        translator = Translator(class_name="varnish", only_class=True, addresses="load-balancer")
        self.changes = ChangeCollector(observed, lambda: None)
        self.reconciler = Reconciler(translator, Installation(image="i"), observed)
        self.writer = StubWriter()
        self.objects = ObjectWriter(self.writer, watches, self.reconciler.objects, SimpleNamespace())
        unused = dict.fromkeys(("routing", "statuses", "finalizer", "invalidations", "chaperones"))
        self.warnings: list[tuple[Key, str, str]] = []
        warnings = SimpleNamespace(publish=lambda *warning: self.warnings.append(warning))
        self.executor = Executor(self.reconciler, observed, objects=self.objects, warnings=warnings, **unused)

    async def run(self, inputs: dict[Key, ObservedInput | None]) -> None:
        """Reconcile changed inputs, and run the jobs of objects that follow."""
        self.changes.on_inputs(inputs)
        batch = self.changes.drain()
        jobs: Jobs = self.reconciler.reconcile(batch, self.reconciler.translate(batch.inputs))
        for job in jobs:
            if job.action in ("object", "notice"):
                await self.executor.run(Job(job.action, job.key), JobResult())


def observed_input(kind: type[api.Object], key: Key, spec: dict) -> ObservedInput:
    metadata = {"name": key.name, "namespace": key.namespace, "uid": f"u-{key.name}", "generation": 1}
    return ObservedInput(msgspec.convert({"metadata": metadata, "spec": spec}, kind), "1", b"null", False)


@pytest.fixture
async def operator() -> Operator:
    """Apply the objects of a Gateway."""
    made = Operator()
    listener = {"name": "http", "port": 80, "protocol": "HTTP"}
    spec = {"gatewayClassName": "varnish", "listeners": [listener]}
    await made.run(
        {
            CLASS: observed_input(api.GatewayClass, CLASS, {"controllerName": CONTROLLER}),
            GATEWAY: observed_input(api.Gateway, GATEWAY, spec),
        }
    )
    assert {key.kind for key in made.objects.remembered} >= {"Secret", "Service", "Deployment"}
    return made


async def test_deleted_gateway_leaves_no_manifest_in_memory(operator):
    """The garbage collector deletes its objects, not the operator."""
    await operator.run({GATEWAY: None})
    assert operator.objects.remembered == set()
    assert operator.writer.deleted == []


PARAMETERS = Key("GatewayClassParameters", "", "strict")


def gateway_class(parameters: str) -> ObservedInput:
    ref = {"group": "gateway.varnish-software.com", "kind": PARAMETERS.kind, "name": parameters}
    return observed_input(api.GatewayClass, CLASS, {"controllerName": CONTROLLER, "parametersRef": ref})


async def test_parameters_without_a_class_get_an_event(operator):
    strict = observed_input(api.GatewayClassParameters, PARAMETERS, {})
    await operator.run({PARAMETERS: strict})
    await operator.run({CLASS: gateway_class("strikt")})
    message = "it has no effect: no GatewayClass references it in spec.parametersRef"
    assert operator.warnings == [(PARAMETERS, "NotReferenced", message)]
    await operator.run({CLASS: gateway_class("strict")})
    await operator.executor.run(Job("notice", PARAMETERS), JobResult())
    assert len(operator.warnings) == 1, "the class came in time"
    await operator.run({CLASS: None})
    assert len(operator.warnings) == 2
    await operator.run({PARAMETERS: None})
    assert operator.reconciler.parameters.unreferenced == set()
