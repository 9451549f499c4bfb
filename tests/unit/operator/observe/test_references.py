"""Watches of referenced objects: each while translation depends on it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from support.waiting import until_async
from varnish_gateway import api, errors
from varnish_gateway.api import Key
from varnish_gateway.kube.metrics import Metrics
from varnish_gateway.operator.observe import polling, references
from varnish_gateway.operator.observe.references import ReferencedObjects

CA, OTHER = (Key("ConfigMap", "shop", name) for name in ("ca", "other"))


class StubClient:
    """An API server whose lists are empty; ``paths`` are the requests. While ``hangs`` it answers no list.

    A single ConfigMap is read from ``stored``, unless there is a ``refusal``.
    """

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.hangs = False
        self.stops_late = asyncio.Event()
        self.paths: list[str] = []
        self.stopping = asyncio.Event()
        self.stored: dict[str, str] = {}
        self.refusal: errors.ApiError | None = None
        self.reading = self.most_reading = 0

    async def read(self, path: str, **_: object) -> bytes:
        self.paths.append(path)
        if self.hangs:
            await asyncio.Event().wait()
        return b'{"kind": "ConfigMapList", "metadata": {"resourceVersion": "1"}, "items": []}'

    async def get(self, _: object, name: str, *, namespace: str) -> bytes:
        self.paths.append(f"{namespace}/{name}")
        self.reading += 1
        self.most_reading = max(self.reading, self.most_reading)
        await asyncio.sleep(0)
        self.reading -= 1
        if self.refusal is not None:
            raise self.refusal
        if name not in self.stored:
            raise errors.NotFound(f"{name} not found")
        metadata = {"name": name, "namespace": namespace}
        return msgspec.json.encode({"metadata": metadata, "data": {"ca.crt": self.stored[name]}})

    async def lines(self, _: str, **__: object) -> AsyncIterator[list[bytes]]:
        try:
            await asyncio.Event().wait()
            yield []
        finally:
            self.stopping.set()
            await self.stops_late.wait()


class Followed:
    """ReferencedObjects with what they delivered."""

    def __init__(self, client: StubClient, group: asyncio.TaskGroup) -> None:
        self.delivered: list[dict[Key, api.Object | None]] = []
        self._objects = ReferencedObjects(client, self.delivered.append)
        self._group = group

    @property
    def polled(self) -> str:
        return self._objects.polled

    async def follow(self, *keys: Key) -> bool:
        return await self._objects.follow(lambda _: set(keys), self._group)


@pytest.fixture
def client() -> StubClient:
    made = StubClient()
    made.stops_late.set()
    return made


@contextlib.asynccontextmanager
async def following(client: StubClient) -> AsyncIterator[Followed]:
    async with asyncio.TaskGroup() as group:
        followed = Followed(client, group)
        try:
            yield followed
        finally:
            client.stops_late.set()
            await followed.follow()


@contextlib.asynccontextmanager
async def running(client: StubClient) -> AsyncIterator[Followed]:
    """Give ReferencedObjects of an operator whose start is over."""
    async with following(client) as followed:
        assert not await followed.follow()
        yield followed


async def test_new_reference_is_read_before_follow_returns(client):
    async with following(client) as followed:
        assert await followed.follow(CA)
        assert len(client.paths) == 1
        assert "ca" in client.paths[0]


async def test_reference_is_watched_until_translation_no_longer_depends_on_it(client):
    async with following(client) as followed:
        await followed.follow(CA, OTHER)
        assert not await followed.follow(OTHER, CA), "nothing changed"
        assert len(client.paths) == 2
        assert await followed.follow(OTHER)
        assert followed.delivered == [{CA: None}]


async def test_reference_that_can_not_be_read_delays_a_batch_for_a_limited_time(client, monkeypatch, caplog):
    monkeypatch.setattr(references, "READ_SECONDS", 0.01)
    client.hangs = True
    async with following(client) as followed:
        assert await followed.follow(CA)
        assert "can't read referenced objects" in caplog.text
        assert not await followed.follow(CA), "the next batch does not wait again"


async def test_cancellation_passes_through_a_watch_that_stops_late(client):
    client.stops_late.clear()
    async with following(client) as followed:
        await followed.follow(CA)
        await asyncio.sleep(0.01)
        stopping: asyncio.Task[Any] = asyncio.create_task(followed.follow())
        await client.stopping.wait()
        stopping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await stopping
        assert stopping.cancelled()


MANY = [Key("ConfigMap", "shop", f"ca-{number:04}") for number in range(1000)]
LAST = MANY[-1]


@pytest.fixture
def quick(monkeypatch) -> None:
    """Have polls without pauses between them."""
    monkeypatch.setattr(polling, "GAP_SECONDS", 0)


def watched(client: StubClient, namespace: str = "") -> int:
    """Return how many watches were started."""
    return len([path for path in client.paths if "fieldSelector" in path and f"namespaces/{namespace}" in path])


async def test_operator_that_starts_reads_polled_references_before_it_decides(client, monkeypatch):
    """It would close all ports whose clients a polled ConfigMap validates."""
    monkeypatch.setattr(polling, "GAP_SECONDS", 60)
    client.stored = {key.name: "authority" for key in MANY}
    async with following(client) as followed:
        assert await followed.follow(*MANY)
        delivered = {key for change in followed.delivered for key in change}
        assert len(delivered) == len(MANY) - references.WATCHES_PER_NAMESPACE
        assert client.most_reading > 1
        assert client.most_reading <= references.START_AT_ONCE
        assert not await followed.follow(*MANY), "the start is over"
        elsewhere = [Key("ConfigMap", "other", key.name) for key in MANY]
        await followed.follow(*MANY, *elsewhere)
        assert [path for path in client.paths if path.startswith("other/")] == [], "no later batch waits"


async def test_polled_references_that_cannot_be_read_delay_a_start_for_a_limited_time(client, monkeypatch, caplog):
    monkeypatch.setattr(references, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(references, "READ_SECONDS", 0.05)
    client.refusal = errors.ApiError("forbidden", status=403)
    async with following(client) as followed:
        assert await followed.follow(*MANY)
        assert "can't read referenced objects: forbidden, and 983 more" in caplog.text


@pytest.mark.usefixtures("quick")
async def test_tenant_with_a_thousand_references_costs_few_watches(client):
    async with running(client) as followed:
        assert await followed.follow(*MANY)
        assert watched(client) == references.WATCHES_PER_NAMESPACE
        await until_async(lambda: len(set(client.paths)) == len(MANY), "each of the others is read once")
        assert client.most_reading == 1, "one after the other"
        elsewhere = Key("ConfigMap", "other", "ca")
        await followed.follow(*MANY, elsewhere)
        assert [path for path in client.paths if "namespaces/other/" in path], "another tenant has its own watches"


def of_tenants(count: int, each: int) -> list[Key]:
    """Return references of so many tenants, with the same number of references each."""
    return [
        Key("ConfigMap", f"tenant-{tenant:03}", f"ca-{number}") for tenant in range(count) for number in range(each)
    ]


@pytest.mark.usefixtures("quick")
async def test_many_tenants_have_a_limited_number_of_watches_in_all(client):
    async with running(client) as followed:
        await followed.follow(*of_tenants(200, 20))
        assert watched(client) == references.MOST_WATCHES
        assert watched(client, "tenant-000/") == references.WATCHES_PER_NAMESPACE
        assert watched(client, "tenant-050/") == references.FEW_WATCHES, "what came first leaves some to the others"
        assert "256 references are watched, 3744 polled: tenant-000, tenant-001" in followed.polled


@pytest.mark.usefixtures("quick")
async def test_watch_that_ends_makes_room_for_another_tenant(client, monkeypatch):
    monkeypatch.setattr(references, "MOST_WATCHES", 4)
    async with running(client) as followed:
        first = of_tenants(2, 2)
        await followed.follow(*first)
        newcomer = Key("ConfigMap", "newcomer", "ca")
        await followed.follow(*first[2:])
        await followed.follow(*first[2:], newcomer)
        assert watched(client, "newcomer/") == 1
        assert followed.polled == ""


async def test_tenant_with_many_polled_references_does_not_delay_another_one(client, monkeypatch):
    monkeypatch.setattr(references, "MOST_WATCHES", 0)
    monkeypatch.setattr(polling, "GAP_SECONDS", 0.001)
    async with running(client) as followed:
        await followed.follow(*MANY)
        await until_async(lambda: len(client.paths) > 3, "no poll")
        before = len(client.paths)
        await followed.follow(*MANY, Key("ConfigMap", "other", "ca"))
        await until_async(lambda: "other/ca" in client.paths, "the other tenant has no turn")
        assert client.paths.index("other/ca") <= before + 2


async def test_polls_of_all_tenants_have_one_rate(client, monkeypatch):
    monkeypatch.setattr(references, "MOST_WATCHES", 0)
    monkeypatch.setattr(polling, "GAP_SECONDS", 0.02)
    monkeypatch.setattr(polling, "POLL_SECONDS", 0.0)
    async with running(client) as followed:
        await followed.follow(*of_tenants(100, 1))
        await asyncio.sleep(0.5)  # this is what is tested: how many reads fit into the time
        assert 5 <= len(client.paths) <= 26, "on a busy machine they are fewer"


async def test_polled_reference_is_delivered_when_it_changes_and_when_it_goes(client, monkeypatch):
    monkeypatch.setattr(polling, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(polling, "GAP_SECONDS", 0.001)
    monkeypatch.setattr(references, "WATCHES_PER_NAMESPACE", 0)

    def last() -> str | None:
        found = followed.delivered[-1][CA] if followed.delivered else None
        return found.data["ca.crt"] if isinstance(found, api.ConfigMap) else None

    async with running(client) as followed:
        client.stored["ca"] = "one"
        await followed.follow(CA)
        await until_async(lambda: last() == "one", "no content")
        client.stored["ca"] = "two"
        await until_async(lambda: last() == "two", "no change")
        reads = len(client.paths)
        client.refusal = errors.ApiError("etcd has no leader", status=500)
        await until_async(lambda: len(client.paths) > reads + 2, "no poll")
        assert last() == "two", "500 isn't no"
        client.refusal = None
        del client.stored["ca"]
        await until_async(lambda: followed.delivered[-1] == {CA: None}, "no deletion")
        assert len(followed.delivered) == 3


async def test_reference_that_is_dropped_is_polled_no_more(client, monkeypatch):
    monkeypatch.setattr(polling, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(polling, "GAP_SECONDS", 0.001)
    monkeypatch.setattr(references, "WATCHES_PER_NAMESPACE", 0)
    async with running(client) as followed:
        await followed.follow(CA, OTHER)
        await until_async(lambda: {"shop/ca", "shop/other"} <= set(client.paths), "no first read")
        await followed.follow(OTHER)
        reads = len(client.paths)
        await until_async(lambda: len(client.paths) > reads + 3, "no poll")
        assert set(client.paths[reads:]) <= {"shop/other"}
