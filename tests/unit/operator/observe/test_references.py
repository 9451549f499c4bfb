"""Watches of referenced objects: each while translation depends on it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from varnish_gateway import api
from varnish_gateway.api import Key
from varnish_gateway.kube.metrics import Metrics
from varnish_gateway.operator.observe import references
from varnish_gateway.operator.observe.references import ReferencedObjects

CA, OTHER = (Key("ConfigMap", "shop", name) for name in ("ca", "other"))


class StubClient:
    """An API server with no ConfigMap; ``paths`` are the requests. While ``hangs`` it answers nothing."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.hangs = False
        self.stops_late = asyncio.Event()
        self.paths: list[str] = []
        self.stopping = asyncio.Event()

    async def read(self, path: str, **_: object) -> bytes:
        self.paths.append(path)
        if self.hangs:
            await asyncio.Event().wait()
        return b'{"kind": "ConfigMapList", "metadata": {"resourceVersion": "1"}, "items": []}'

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
