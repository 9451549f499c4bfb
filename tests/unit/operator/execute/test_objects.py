"""Writes of generated objects, where watches don't report everything."""

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from support.builders.desired import desired_gateway
from varnish_gateway import errors
from varnish_gateway.api import Key
from varnish_gateway.emit import names
from varnish_gateway.kube.metrics import Metrics
from varnish_gateway.operator.execute.objects import ObjectWriter
from varnish_gateway.operator.observe.state import ObservedState
from varnish_gateway.operator.observe.watches import Watches
from varnish_gateway.operator.plan.objects import DesiredObjects, Manifest
from varnish_gateway.operator.plan.results import JobResult

GATEWAY = Key("Gateway", "shop", "gw")
SERVICE = Key("Service", "shop", "gw-vgw")


class StubWriter:
    """Stores objects in place of the API server. ``applied`` are the objects that were written."""

    def __init__(self) -> None:
        self.objects: dict[Key, dict[str, Any]] = {}
        self.applied: list[Key] = []

    async def get(self, key: Key) -> bytes | None:
        return msgspec.json.encode(self.objects[key]) if key in self.objects else None

    async def apply(self, manifest: dict[str, Any], *, manager: str) -> bytes:
        key = Key(manifest["kind"], manifest["metadata"]["namespace"], manifest["metadata"]["name"])
        self.applied.append(key)
        given = {
            "uid": f"u{len(self.applied)}",
            "resourceVersion": str(len(self.applied)),
            "managedFields": [{"manager": manager, "operation": "Apply"}],
        }
        self.objects[key] = {**manifest, "metadata": manifest["metadata"] | given}
        return msgspec.json.encode(self.objects[key])


@pytest.fixture
def watches() -> Watches:
    return Watches(SimpleNamespace(metrics=Metrics()), ObservedState("varnish"))


@pytest.fixture
def writer() -> StubWriter:
    return StubWriter()


@pytest.fixture
def desired() -> DesiredObjects:
    """Every object of a Gateway is desired."""
    objects = DesiredObjects()
    objects.update(GATEWAY, desired_gateway().rebuild())
    return objects


@pytest.fixture
def objects(writer: StubWriter, watches: Watches, desired: DesiredObjects) -> ObjectWriter:
    return ObjectWriter(writer, watches, desired, SimpleNamespace())


def with_annotation(manifest: Manifest, value: str) -> Manifest:
    annotations = manifest["metadata"]["annotations"] | {names.APPLIED_HASH: value}
    return {**manifest, "metadata": manifest["metadata"] | {"annotations": annotations}}


async def test_object_of_another_gateway_is_neither_changed_nor_deleted(objects, writer, desired):
    theirs = desired.get(SERVICE)
    annotations = theirs["metadata"]["annotations"] | {names.GATEWAY_ANNOTATION: "gw-vgw"}
    await writer.apply(
        {**theirs, "metadata": theirs["metadata"] | {"annotations": annotations}}, manager="varnish-gateway"
    )
    writer.applied.clear()
    with pytest.raises(errors.NotOurs, match="Service shop/gw-vgw belongs to Gateway gw-vgw"):
        await objects.ensure(SERVICE, JobResult())
    assert (writer.applied, SERVICE in writer.objects) == ([], True)


async def test_applied_object_is_observed_without_a_watch_event(objects, writer, watches):
    await objects.ensure(SERVICE, JobResult())
    assert writer.applied == [SERVICE]
    assert watches.observed.owned[SERVICE].uid == "u1"


async def test_object_that_matches_is_recorded_and_not_applied(objects, writer, watches, desired):
    await writer.apply(desired.get(SERVICE), manager=names.GATEWAY_MANAGER)
    await objects.ensure(SERVICE, JobResult())
    assert writer.applied == [SERVICE], "it was right as it was"
    assert watches.observed.owned[SERVICE].uid == "u1"


async def test_one_object_is_written_by_one_job_at_a_time(objects, writer, desired, monkeypatch):
    """Even if its manifest changes while another job waits for the lock."""
    running = []
    apply = writer.apply

    async def slowly(manifest: dict[str, Any], *, manager: str) -> bytes:
        running.append(len(running))
        assert running == [0]
        await asyncio.sleep(0.01)
        running.pop()
        return await apply(manifest, manager=manager)

    async def ensure_and_change() -> None:
        await objects.ensure(SERVICE, JobResult())
        desired.update(GATEWAY, {SERVICE: with_annotation(desired.get(SERVICE), "another")})
        await asyncio.create_task(objects.ensure(SERVICE, JobResult()))

    monkeypatch.setattr(writer, "apply", slowly)
    await asyncio.gather(ensure_and_change(), objects.ensure(SERVICE, JobResult()))
    assert writer.applied == [SERVICE, SERVICE]


async def test_object_that_becomes_surplus_while_it_is_applied_is_reported(objects, writer, desired, monkeypatch):
    """A job that looked meanwhile found nothing yet, and the watch reports nothing new."""
    apply = writer.apply

    async def while_it_becomes_surplus(manifest: dict[str, Any], *, manager: str) -> bytes:
        desired.update(GATEWAY, {SERVICE: None})
        return await apply(manifest, manager=manager)

    monkeypatch.setattr(writer, "apply", while_it_becomes_surplus)
    result = JobResult()
    await objects.ensure(SERVICE, result)
    assert writer.applied == [SERVICE]
    assert result.touched == {SERVICE}


async def test_role_of_a_binding_is_applied_first_and_reported(objects, writer):
    result = JobResult()
    await objects.ensure(Key("RoleBinding", "shop", "gw-vgw"), result)
    assert [key.kind for key in writer.applied] == ["Role", "RoleBinding"]
    assert {key.kind for key in result.touched} == {"Role", "RoleBinding"}


async def test_object_that_is_not_desired_is_neither_written_nor_reported(objects, writer):
    result = JobResult()
    await objects.ensure(Key("Service", "shop", "no such"), result)
    assert writer.applied == []
    assert result.touched == set()


async def test_locks_last_no_longer_than_their_job(objects):
    await objects.ensure(SERVICE, JobResult())
    assert not objects.locks
