"""Watches of EndpointSlices, one for each namespace that is named."""

import asyncio

import pytest

from support.kube.pods.chaperone_process import ProvisionedGateway
from support.waiting import TIMEOUT, until_async
from varnish_gateway.chaperone.feeds import slices
from varnish_gateway.chaperone.feeds.slices import SliceWatches
from varnish_gateway.ir import wire

ENDPOINT = wire.Endpoint(address="10.0.0.1", port=80)


class Reported:
    """Collects what the watches report."""

    def __init__(self):
        self.slices, self.listed = {}, []

    def update(self, changes):
        for key, piece in changes.items():
            if piece is None:
                self.slices.pop(key)
            else:
                self.slices[key] = piece

    @property
    def names(self):
        return {f"{key.namespace}/{key.name}" for key in self.slices}


@pytest.fixture
def reported():
    return Reported()


@pytest.fixture
async def watches(client, reported, monkeypatch):
    monkeypatch.setattr(slices, "FIRST_LIST_SECONDS", TIMEOUT)  # a list may take long on a slow machine
    watches = SliceWatches(client, reported.update, reported.listed.append)
    async with asyncio.TaskGroup() as tasks:
        watches.start(tasks)
        yield watches
        watches.close()


@pytest.fixture
def quickly(monkeypatch, cluster, namespace):
    """Give a Gateway; namespaces that no route names any more have a short grace period."""
    monkeypatch.setattr(slices, "GRACE_SECONDS", 0.01)
    return ProvisionedGateway(cluster, namespace)


async def test_only_referenced_namespaces_are_watched(cluster, namespace, other, watches, reported):
    gateway = ProvisionedGateway(cluster, namespace)
    gateway.write_endpoints(f"{namespace}/tea", ENDPOINT)
    gateway.write_endpoints(f"{other}/milk", ENDPOINT)
    watches.watch([namespace])
    await watches.until_listed(serving=True)
    assert reported.names == {f"{namespace}/tea"}
    await until_async(lambda: reported.listed == [namespace], "the namespace is listed")
    watches.watch([namespace, other])
    await watches.until_listed(serving=True)
    assert reported.names == {f"{namespace}/tea", f"{other}/milk"}
    gateway.remove_endpoints(f"{other}/milk")
    await until_async(lambda: reported.names == {f"{namespace}/tea"}, "the deletion is reported")


async def test_a_namespace_without_slices_is_listed_too(namespace, watches, reported):
    watches.watch([namespace])
    await watches.until_listed(serving=False)
    await until_async(lambda: reported.listed == [namespace], "the namespace is listed")
    assert reported.slices == {}


async def test_unreferenced_namespace_is_dropped_after_a_delay(quickly, namespace, other, watches, reported):
    gateway = quickly
    gateway.write_endpoints(f"{namespace}/tea", ENDPOINT)
    gateway.write_endpoints(f"{other}/milk", ENDPOINT)
    watches.watch([namespace, other])
    await watches.until_listed(serving=True)
    watches.watch([other])
    await until_async(lambda: len(watches) == 1, "the watch is ended")
    assert reported.names == {f"{other}/milk"}
    # A namespace that is referenced again is listed again.
    gateway.remove_endpoints(f"{namespace}/tea")
    gateway.write_endpoints(f"{namespace}/new", ENDPOINT)
    watches.watch([namespace, other])
    await watches.until_listed(serving=True)
    assert reported.names == {f"{other}/milk", f"{namespace}/new"}


async def test_namespace_referenced_again_soon_is_not_relisted(client, cluster, namespace, watches, reported):
    ProvisionedGateway(cluster, namespace).write_endpoints(f"{namespace}/tea", ENDPOINT)
    watches.watch([namespace])
    await watches.until_listed(serving=True)
    watches.watch([])
    watches.watch([namespace])
    assert len(watches) == 1
    assert reported.names == {f"{namespace}/tea"}
    assert client.metrics.requests["list", "EndpointSlice", 200] == 1


async def test_forbidden_namespace_delays_routing_only_briefly(cluster, namespace, reported, monkeypatch):
    monkeypatch.setattr(slices, "FIRST_LIST_SECONDS", 0.2)
    gateway = ProvisionedGateway(cluster, namespace)
    async with cluster.client(gateway.grant()) as client, asyncio.TaskGroup() as tasks:
        watches = SliceWatches(client, reported.update, reported.listed.append)
        watches.start(tasks)
        watches.watch(["kube-system"])
        await watches.until_listed(serving=False)
        ((named, problem),) = watches.problems
        assert named == "kube-system"
        assert "may not be watched" in problem
        assert reported.listed == []
        watches.close()
