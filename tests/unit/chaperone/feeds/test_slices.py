"""Watches of EndpointSlices against an API server made of a few lines."""

import asyncio
import json

import pytest

from varnish_gateway import errors
from varnish_gateway.chaperone.feeds import slices
from varnish_gateway.chaperone.feeds.slices import SliceWatches
from varnish_gateway.kube.metrics import Metrics


class ApiServer:
    """Has the slice tea, and tells what is put into ``news``."""

    def __init__(self):
        self.metrics = Metrics()
        self.news: asyncio.Queue[dict] = asyncio.Queue()
        self.refusal: errors.ApiError | None = None

    async def read(self, *_, **__):
        if self.refusal is not None:
            raise self.refusal
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


TROUBLES = [errors.Throttled("busy"), errors.ApiError("broken", status=500), errors.Forbidden("who?", status=401)]


async def asked_for_a_first_list(api_server, refusal, *, serving):
    """Return whether waiting ends while the API server refuses, and whether it ends once that answers."""
    api_server.refusal = refusal
    watches = SliceWatches(api_server, lambda _: None, lambda _: None)
    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
        watches.start(tasks)
        watches.watch({"n"})
        waiting = tasks.create_task(watches.until_listed(serving=serving))
        ended, _ = await asyncio.wait({waiting}, timeout=1)
        api_server.refusal = None
        await waiting
        watches.close()
    return bool(ended)


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda error: str(error.status))
async def test_fresh_pod_waits_for_endpoints_while_the_api_server_is_in_trouble(api_server, trouble, monkeypatch):
    monkeypatch.setattr(slices, "FIRST_LIST_SECONDS", 0.05)
    monkeypatch.setattr(slices, "LONGEST_LIST_SECONDS", 0.05)  # for pods that serve
    assert not await asked_for_a_first_list(api_server, trouble, serving=False)


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda error: str(error.status))
async def test_serving_pod_delays_a_new_namespace_while_the_api_server_is_in_trouble(api_server, trouble, monkeypatch):
    monkeypatch.setattr(slices, "FIRST_LIST_SECONDS", 0.05)
    assert not await asked_for_a_first_list(api_server, trouble, serving=True)


async def test_serving_pod_does_not_wait_without_end(api_server, monkeypatch):
    monkeypatch.setattr(slices, "LONGEST_LIST_SECONDS", 0.05)
    assert await asked_for_a_first_list(api_server, TROUBLES[0], serving=True)


async def test_forbidden_namespace_keeps_no_pod_from_serving_the_others(api_server, monkeypatch):
    monkeypatch.setattr(slices, "FIRST_LIST_SECONDS", 0.05)
    assert await asked_for_a_first_list(api_server, errors.Forbidden("no", status=403), serving=False)
