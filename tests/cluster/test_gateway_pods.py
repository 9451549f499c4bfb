"""Pods of a Gateway come and go."""

import asyncio
from collections.abc import Iterator

import pytest

from cluster.api import Api
from support.http.traffic import Target, ask, probe, traffic
from support.kube.cluster_harness import ClusterHarness, class_parameters
from support.kube.documents import route


@pytest.fixture
def two_replicas(api: Api) -> Iterator[None]:
    """Have two pods for each Gateway."""
    with class_parameters(api, "two-replicas", replicas=2):
        yield


def ready_endpoints(harness: ClusterHarness, service: str) -> set[str]:
    """Return the names of pods that new connections are sent to."""
    path = f"/apis/discovery.k8s.io/v1/namespaces/{harness.namespace}/endpointslices"
    slices = harness.api.get(f"{path}?labelSelector=kubernetes.io/service-name%3D{service}")["items"]
    return {
        endpoint["targetRef"]["name"]
        for found in slices
        for endpoint in found.get("endpoints") or []
        if endpoint["conditions"].get("ready")
    }


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("two_replicas")
async def test_deleted_pod_fails_no_request(harness: ClusterHarness):
    """New connections find the other pod; what is on its way is answered."""
    harness.echo("echo")
    address = harness.gateway()
    harness.wait_for(lambda: len(ready_endpoints(harness, "gateway-vgw")) == 2, "two pods are ready")
    harness.put(route(harness.namespace, "route", "gateway", host="a.test", backend={"name": "echo"}))
    target, slow = Target(address, "a.test"), Target(address, "a.test", path="/?delay=8s")
    await probe(target)
    connections = [await asyncio.open_connection(address, 80) for _ in range(8)]
    waiting = [asyncio.create_task(ask(slow, streams)) for streams in connections]
    (victim, *_) = sorted(ready_endpoints(harness, "gateway-vgw"))
    async with traffic(target, fresh=True) as seen:
        await asyncio.to_thread(harness.wait_for, lambda: seen.answered > 50, "there is load")
        harness.api.request("DELETE", harness.path("Pod", victim))
        await asyncio.to_thread(
            harness.wait_for, lambda: victim not in ready_endpoints(harness, "gateway-vgw"), "its endpoint is gone"
        )
        await asyncio.to_thread(harness.wait_for, lambda: harness.get("Pod", victim) is None, "the pod is gone")
    assert not seen.failures, "it serves until no more connections arrive"
    assert set(seen.statuses) == {200}
    answers = await asyncio.gather(*waiting)
    assert [status for status, _, _ in answers] == [200] * len(answers)
    for _, writer in connections:
        writer.close()
