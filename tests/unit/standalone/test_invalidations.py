"""VarnishCacheInvalidations of files, with caches of a few lines."""

import asyncio

import msgspec
import pytest

from support.waiting import until_async
from varnish_gateway import errors
from varnish_gateway.api import Key, VarnishCacheInvalidation
from varnish_gateway.standalone import invalidations as module
from varnish_gateway.standalone.invalidations import AT_ONCE, FileInvalidations

GATEWAY = Key("Gateway", "infra", "gw")
ONE = Key("VarnishCacheInvalidation", "infra", "one")


class Cache:
    """Counts 3 objects for each target, or raises faults in their order; may wait for ``gate``."""

    def __init__(self) -> None:
        self.may_hold_objects = True
        self.attached = (Key("HTTPRoute", "shop", "web"), Key("HTTPRoute", "tea", "pots"))
        self.faults: list[Exception] = []
        self.faults_of_check: list[Exception] = []
        self.asked, self.checked = [], []
        self.gate = asyncio.Event()
        self.gate.set()
        self.at_once = 0
        self._now = 0

    async def invalidate(self, invalidation, client):
        self.asked.append((client, invalidation))
        self._now += 1
        self.at_once = max(self.at_once, self._now)
        await self.gate.wait()
        self._now -= 1
        if self.faults:
            raise self.faults.pop(0)
        return (3,) * len(invalidation.targets)

    async def check(self, invalidation):
        self.checked.append(invalidation)
        if self.faults_of_check:
            raise self.faults_of_check.pop(0)


class Files:
    """Objects in files, the statuses that were reported, and the caches of their Gateways."""

    def __init__(self) -> None:
        self.caches = {GATEWAY: Cache()}
        self.reported: dict[Key, list] = {}
        self.ended: list[asyncio.Task] = []
        self.invalidations = FileInvalidations(lambda: self.caches, self._on_report, self.ended.append)

    def _on_report(self, statuses) -> None:
        for key, status in statuses.items():
            self.reported.setdefault(key, []).append(status)

    def write(self, key: Key = ONE, **spec) -> None:
        document = {
            "metadata": {"name": key.name, "namespace": key.namespace, "generation": 7},
            "spec": {"gatewayRef": {"name": "gw", "namespace": "infra"}, **spec},
        }
        self.invalidations.update({key: msgspec.convert(document, VarnishCacheInvalidation)})

    def delete(self, key: Key = ONE) -> None:
        self.invalidations.update({key: None})

    def status(self, key: Key = ONE):
        return self.invalidations.statuses[key]

    async def ends(self, key: Key = ONE) -> tuple[str, int, str]:
        """Wait for the end; return phase, objects and the message that explains them."""
        await until_async(lambda: _true(self.status(key).phase in ("Complete", "Failed")), "the phase ends")
        return described(self.status(key))


async def _true(value: bool) -> bool:
    return value


def described(status) -> tuple[str, int, str]:
    """Return what is not as it should be, or else the message of Complete."""
    messages = {condition.type: condition.message for condition in status.conditions}
    return status.phase, status.objects, messages["Accepted"] or messages["Complete"]


@pytest.fixture
async def files(monkeypatch):
    monkeypatch.setattr(module, "FIRST_RETRY_SECONDS", 0.001)
    files = Files()
    yield files
    await files.invalidations.close()
    assert [task.exception() for task in files.ended if not task.cancelled()] == [None] * sum(
        not task.cancelled() for task in files.ended
    )


async def test_object_is_carried_out_and_says_what_it_hit(files):
    files.write(hostname="a.example", paths=["/x", "/y"], mode="Soft", tags=["t"])
    assert files.status().phase == "InProgress"
    assert await files.ends() == ("Complete", 9, "9 objects: /x 3, /y 3, tags 3")
    ((client, invalidation),) = files.caches[GATEWAY].asked
    assert (client, invalidation.mode) == ("VarnishCacheInvalidation infra/one", "soft")
    assert files.status().observed_generation == 7
    assert [status.phase for status in files.reported[ONE]] == ["InProgress", "Complete"]


async def test_object_that_is_read_again_is_not_carried_out_again_and_an_edited_one_is(files):
    files.write(tags=["a"])
    await files.ends()
    files.write(tags=["a"])
    files.write(tags=["a"])
    assert await files.ends() == ("Complete", 3, "3 objects: tags 3")
    files.write(tags=["b"])
    await files.ends()
    asked = [invalidation.targets[0].tags for _, invalidation in files.caches[GATEWAY].asked]
    assert asked == [("a",), ("b",)]


async def test_deleted_object_is_forgotten_and_stopped(files):
    files.caches[GATEWAY].gate.clear()
    files.write(tags=["a"])
    await until_async(lambda: _true(bool(files.caches[GATEWAY].asked)), "it is sent")
    files.delete()
    files.delete()
    await until_async(lambda: _true(files.ended != []), "the task ends")
    assert files.ended[0].cancelled()
    assert files.reported[ONE][-1] is None
    assert files.invalidations.statuses == {}


async def test_cache_that_holds_nothing_needs_none_but_a_mistake_is_reported(files):
    cache = files.caches[GATEWAY]
    cache.may_hold_objects = False
    cache.faults_of_check = [ConnectionError("varnishd does not run"), errors.BadDocument("targets[0].matching: (")]
    files.write(type="Ban", hostname="a.example", paths=["("])
    nothing = "0 objects: nothing was stored when it was read"
    assert described(files.status()) == ("Complete", 0, nothing)
    await until_async(lambda: _true(files.status().phase == "Failed"), "ghost rejects it")
    assert described(files.status()) == ("Failed", 0, "targets[0].matching: (")
    assert (cache.asked, len(cache.checked)) == ([], 2)


async def test_varnishd_that_is_away_is_asked_until_it_confirms(files, monkeypatch):
    monkeypatch.setattr(module, "END_SECONDS", 0.0)
    files.caches[GATEWAY].faults = [ConnectionError("no worker")] * 3
    files.write(tags=["a"])
    await until_async(lambda: _true(files.status().phase == "Complete"), "it confirms")
    begun, late, complete = map(described, files.reported[ONE])
    assert (begun[0], complete[0]) == ("InProgress", "Complete")
    assert late == ("Failed", 0, "not confirmed yet: no worker; it is tried again")
    assert len(files.caches[GATEWAY].asked) == 4


async def test_what_ghost_rejects_is_a_fault_and_not_repeated(files):
    files.caches[GATEWAY].faults = [errors.BadDocument("targets[0].uri.target: is no path")]
    files.write(hostname="a.example", paths=["x"])
    assert await files.ends() == ("Failed", 0, "targets[0].uri.target: is no path")
    assert {one.type: (one.status, one.reason) for one in files.status().conditions} == {
        "Accepted": ("False", "Invalid"),
        "Complete": ("False", "NotAccepted"),
    }
    assert len(files.caches[GATEWAY].asked) == 1


async def test_missing_gateway_is_a_fault_until_it_is_there(files):
    cache = files.caches.pop(GATEWAY)
    files.write(tags=["a"])
    phase, _, message = described(files.status())
    assert (phase, message.startswith("Gateway infra/gw is not in the files")) == ("Failed", True)
    cache.may_hold_objects = False
    files.caches[GATEWAY] = cache
    files.invalidations.on_gateways({GATEWAY._replace(name="other")})
    assert files.status().phase == "Failed"
    files.invalidations.on_gateways({GATEWAY})
    assert files.status().phase == "Complete"


async def test_object_of_another_namespace_means_what_its_routes_have_stored(files):
    one = ONE._replace(namespace="shop")
    files.write(one, everything=True, routes=["tea/pots"])
    assert (await files.ends(one))[0] == "Complete"
    ((_, invalidation),) = files.caches[GATEWAY].asked
    assert (invalidation.namespaces, len(invalidation.targets)) == (("shop",), 1)
    restricted = [one.message for one in files.status(one).conditions if one.type == "Restricted"]
    assert "left out: tea/pots" in restricted[0]
    nobody = ONE._replace(namespace="nobody")
    files.write(nobody, everything=True)
    assert files.status(nobody).conditions[0].reason == "NoRoutes"


async def test_many_are_carried_out_a_few_at_a_time_and_reported_together(files):
    cache = files.caches[GATEWAY]
    cache.gate.clear()
    keys = [ONE._replace(name=f"i{number}") for number in range(10)]
    for key in keys:
        files.write(key, tags=["a"])
    assert files.reported == {}, "not one by one"
    await until_async(lambda: _true(len(cache.asked) == AT_ONCE), "some are sent")
    assert len(files.reported) == 10
    assert files.invalidations.phases == {"InProgress": 10}
    cache.gate.set()
    for key in keys:
        await files.ends(key)
    assert (len(cache.asked), cache.at_once) == (10, AT_ONCE)
