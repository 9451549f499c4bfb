"""Events in a real cluster."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cluster.apiserver.server import Cluster
from support.waiting import until_async
from varnish_gateway.kube.client import Client
from varnish_gateway.kube.events import MOST_WAITING, PER_OBJECT, Recorder, Reference
from varnish_gateway.kube.resources import RESOURCES

EVENT = RESOURCES["Event"]


def gateway(namespace: str, name: str = "gw") -> Reference:
    return Reference("gateway.networking.k8s.io/v1", "Gateway", namespace, name, "0-1-2")


@asynccontextmanager
async def recorder(client: Client) -> AsyncIterator[Recorder]:
    made = Recorder(client, component="varnish-gateway", instance="pod-1")
    task = asyncio.create_task(made.run())
    try:
        yield made
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def written(cluster: Cluster, namespace: str) -> list[dict]:
    return cluster.request("GET", EVENT.path(namespace))["items"]


async def test_kubectl_describe_shows_the_event(client: Client, cluster: Cluster, namespace: str) -> None:
    async with recorder(client) as events:
        events.record(gateway(namespace), "Warning", "FieldConflict", "kubectl owns spec.replicas")
        await until_async(lambda: written(cluster, namespace), "no Event")
    (event,) = written(cluster, namespace)
    assert event["involvedObject"]["kind"] == "Gateway"
    assert event["source"]["component"] == "varnish-gateway"
    listed = cluster.kubectl("get", "events", "-n", namespace)
    assert "kubectl owns spec.replicas" in listed
    assert "gateway/gw" in listed


async def test_repeated_event_raises_its_count(client: Client, cluster: Cluster, namespace: str) -> None:
    def counts() -> list[int]:
        return sorted(event["count"] for event in written(cluster, namespace))

    async with recorder(client) as events:
        events.record(gateway(namespace), "Warning", "Invalid", "one")
        await until_async(lambda: counts() == [1], "no Event")
        for _ in range(4):
            events.record(gateway(namespace), "Warning", "Invalid", "one")
        events.record(gateway(namespace), "Warning", "Invalid", "two")
        await until_async(lambda: counts() == [1, 5], "not one with 5 and one with 1")


async def test_deleted_event_is_recreated(client: Client, cluster: Cluster, namespace: str) -> None:
    async with recorder(client) as events:
        events.record(gateway(namespace), "Warning", "Invalid", "one")
        await until_async(lambda: written(cluster, namespace), "no Event")
        cluster.request("DELETE", EVENT.path(namespace))
        events.record(gateway(namespace), "Warning", "Invalid", "one")
        (event,) = await until_async(lambda: written(cluster, namespace), "no second Event")
        assert event["count"] == 2


async def test_events_of_a_cluster_scoped_object_are_in_default(client: Client, cluster: Cluster) -> None:
    about = Reference("gateway.networking.k8s.io/v1", "GatewayClass", "", "varnish")
    async with recorder(client) as events:
        events.record(about, "Normal", "Accepted", "taken")
        await until_async(lambda: any(e["reason"] == "Accepted" for e in written(cluster, "default")), "no Event")


async def test_event_flood_about_one_object_is_limited(client: Client, cluster: Cluster, namespace: str) -> None:
    async with recorder(client) as events:
        for number in range(PER_OBJECT + 10):
            events.record(gateway(namespace), "Warning", "Invalid", f"number {number}")
        events.record(gateway(namespace, "other"), "Warning", "Invalid", "still heard")
        await until_async(lambda: len(written(cluster, namespace)) == PER_OBJECT + 1, "not as many as allowed")
        assert client.metrics.events_dropped == 10


async def test_deleted_namespace_does_not_block_other_events(client: Client, cluster: Cluster, namespace: str) -> None:
    async with recorder(client) as events:
        events.record(gateway("nowhere"), "Warning", "Invalid", "one")
        events.record(gateway(namespace), "Warning", "Invalid", "two")
        await until_async(lambda: written(cluster, namespace), "no Event")
        assert client.metrics.events_dropped == 1


async def test_events_are_sent_after_an_api_server_outage(own_cluster: Cluster) -> None:
    async with own_cluster.client() as client, recorder(client) as events:
        own_cluster.kill_api()
        for number in range(MOST_WAITING + 10):
            events.record(gateway("default", f"gw-{number}"), "Warning", "Invalid", "one")
        assert 9 <= client.metrics.events_dropped <= 10
        own_cluster.start_api()
        await until_async(lambda: len(written(own_cluster, "default")) >= MOST_WAITING, "some are lost", seconds=60)
