"""Generated objects, where watches don't tell everything."""

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from support.builders.plans import plan
from varnish_gateway.api import Key
from varnish_gateway.emit import names
from varnish_gateway.kube.metrics import Metrics
from varnish_gateway.operator.execute.objects import Objects
from varnish_gateway.operator.observe.sources import Sources

GATEWAY = Key("Gateway", "shop", "gw")
SERVICE = Key("Service", "shop", "gw")


class Stored:
    """What the API server has, in place of a Writer. ``applied`` is what was written."""

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
def sources() -> Sources:
    return Sources(SimpleNamespace(metrics=Metrics()), "varnish")


@pytest.fixture
def stored() -> Stored:
    return Stored()


@pytest.fixture
def surplus() -> list[Key]:
    return []


@pytest.fixture
def objects(stored: Stored, sources: Sources, surplus: list[Key]) -> Objects:
    """All objects of a Gateway are wanted."""
    made = Objects(stored, sources, lambda *_: None, surplus.append)
    made.want(GATEWAY, plan().settle())
    return made


async def test_what_was_made_is_known_without_being_told(objects, stored, sources):
    await objects.bring(SERVICE)
    assert stored.applied == [SERVICE]
    assert sources.live[SERVICE].uid == "u1"


async def test_what_is_found_right_is_known_from_then_on(objects, stored, sources):
    await stored.apply(objects._wanted[SERVICE], manager=names.GATEWAY_MANAGER)
    await objects.bring(SERVICE)
    assert stored.applied == [SERVICE], "it was right as it was"
    assert sources.live[SERVICE].uid == "u1"


async def test_one_object_is_brought_by_one_at_a_time(objects, stored, monkeypatch):
    """Also when it is wanted otherwise while somebody waits for their turn."""
    at_it = []
    apply = stored.apply

    async def slowly(manifest: dict[str, Any], *, manager: str) -> bytes:
        at_it.append(len(at_it))
        assert at_it == [0]
        await asyncio.sleep(0.01)
        at_it.pop()
        return await apply(manifest, manager=manager)

    async def bring_and_change() -> None:
        await objects.bring(SERVICE)
        manifest = objects._wanted[SERVICE]
        annotations = manifest["metadata"]["annotations"] | {names.APPLIED_HASH: "another"}
        objects.want(GATEWAY, {SERVICE: {**manifest, "metadata": manifest["metadata"] | {"annotations": annotations}}})
        await asyncio.create_task(objects.bring(SERVICE))

    monkeypatch.setattr(stored, "apply", slowly)
    await asyncio.gather(bring_and_change(), objects.bring(SERVICE))
    assert stored.applied == [SERVICE, SERVICE]


async def test_what_is_not_wanted_any_more_when_it_was_just_made_is_told(objects, stored, surplus, monkeypatch):
    """Whoever looked at it meanwhile found nothing yet, and the watch tells nothing new of it."""
    apply = stored.apply

    async def while_it_becomes_unwanted(manifest: dict[str, Any], *, manager: str) -> bytes:
        objects.want(GATEWAY, {SERVICE: None})
        return await apply(manifest, manager=manager)

    await objects.bring(SERVICE)
    assert surplus == []
    stored.objects.clear()
    objects._sources.live.clear()
    monkeypatch.setattr(stored, "apply", while_it_becomes_unwanted)
    await objects.bring(SERVICE)
    assert surplus == [SERVICE]


async def test_nothing_is_kept_of_what_is_not_wanted(objects):
    await objects.bring(Key("Service", "shop", "no such"))
    await objects.bring(SERVICE)
    objects.drop(GATEWAY)
    assert not objects._locks
