"""Watches of EndpointSlices against an API server made of a few lines."""

import asyncio
import json

import pytest

from varnish_gateway.chaperone.feeds import slices
from varnish_gateway.chaperone.feeds.slices import SliceWatches
from varnish_gateway.kube.metrics import Metrics


class ApiServer:
    """Has the slice tea, and tells what is put into ``news``."""

    def __init__(self):
        self.metrics = Metrics()
        self.news: asyncio.Queue[dict] = asyncio.Queue()

    async def read(self, *_, **__):
        metadata = {"resourceVersion": "10"}
        return json.dumps({"kind": "EndpointSliceList", "metadata": metadata, "items": [document(1)]}).encode()

    async def lines(self, *_, **__):
        yield []
        while True:
            yield [json.dumps(await self.news.get()).encode()]


def document(version):
    metadata = {"name": "tea", "namespace": "n", "resourceVersion": str(version)}
    return {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata, "addressType": "IPv4"}


@pytest.fixture
async def api_server():
    return ApiServer()


async def test_ended_watch_reports_nothing_more(api_server, monkeypatch):
    monkeypatch.setattr(slices, "GRACE_SECONDS", 60)
    reported = []
    listed = asyncio.Event()
    watches = SliceWatches(api_server, lambda changes: reported.extend(changes.values()), lambda _: listed.set())
    async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
        watches.start(tasks)
        watches.watch({"n"})
        await listed.wait()
        await asyncio.sleep(0.01)
        watches.watch(set())
        api_server.news.put_nowait({"type": "MODIFIED", "object": document(11)})
        watches.end("n")  # while the change is on its way
    watches.close()
    assert [slice_ is not None for slice_ in reported] == [True, False]
