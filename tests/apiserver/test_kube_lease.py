"""Leader election with a real Lease."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from cluster.apiserver.server import Cluster
from support.waiting import until_async
from varnish_gateway.kube.client import Client
from varnish_gateway.kube.lease import Election
from varnish_gateway.kube.resources import RESOURCES

LEASE = RESOURCES["Lease"]
QUICK = {"duration": 3.0, "renew_deadline": 1.5, "retry": 0.1}


@asynccontextmanager
async def candidate(client: Client, namespace: str, identity: str, **times: float) -> AsyncIterator[Election]:
    election = Election(client, namespace=namespace, name="operator", identity=identity, **(QUICK | times))
    task = asyncio.create_task(election.run())
    try:
        yield election
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def leads(election: Election) -> None:
    async with asyncio.timeout(30):
        await election.wait(leading=True)
    assert election.holds()


def spec(cluster: Cluster, namespace: str) -> dict:
    return cluster.request("GET", LEASE.path(namespace, "operator"))["spec"]


async def test_leader_releases_the_lease_when_it_stops(client: Client, cluster: Cluster, namespace: str) -> None:
    times = {"duration": 3600.0, "renew_deadline": 1800.0}  # so long that only a release lets the second one in
    async with contextlib.AsyncExitStack() as stack:
        async with candidate(client, namespace, "first", **times) as first:
            await leads(first)
            second = await stack.enter_async_context(candidate(client, namespace, "second", **times))
            await until_async(lambda: second.leader == "first", "the second does not see the first")
            assert not second.holds()
            assert spec(cluster, namespace)["leaseTransitions"] == 0
        assert not first.holds()
        await leads(second)
        assert spec(cluster, namespace)["leaseTransitions"] == 1
    assert spec(cluster, namespace)["holderIdentity"] == ""


async def test_dead_leader_is_replaced_after_the_lease_duration(
    client: Client, cluster: Cluster, namespace: str
) -> None:
    dead = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "operator", "namespace": namespace},
        "spec": {
            "holderIdentity": "dead",
            "leaseDurationSeconds": 1,
            "leaseTransitions": 4,
            "renewTime": "2999-01-01T00:00:00.000000Z",  # of a holder whose clock is wrong
        },
    }
    await client.create(dead, manager="test")
    async with candidate(client, namespace, "living") as living:
        await until_async(lambda: living.leader == "dead", "it does not look")
        assert not living.holds()
        await leads(living)
        assert spec(cluster, namespace)["leaseTransitions"] == 5


async def test_the_lease_is_renewed(client: Client, cluster: Cluster, namespace: str) -> None:
    async with candidate(client, namespace, "first") as first:
        await leads(first)
        before = spec(cluster, namespace)["renewTime"]
        await until_async(lambda: spec(cluster, namespace)["renewTime"] != before, "it is not renewed")
        assert first.holds()
        assert spec(cluster, namespace)["leaseTransitions"] == 0


async def test_lease_taken_by_another_is_lost_at_once(client: Client, cluster: Cluster, namespace: str) -> None:
    times = {"duration": 3600.0, "renew_deadline": 1800.0}
    async with candidate(client, namespace, "first", **times) as first:
        await leads(first)
        cluster.merge(LEASE.path(namespace, "operator"), {"spec": {"holderIdentity": "thief"}})
        async with asyncio.timeout(30):
            await first.wait(leading=False)
        assert not first.holds()
        assert first.leader == "thief"
    assert spec(cluster, namespace)["holderIdentity"] == "thief"


async def test_unrenewed_lease_expires_by_the_clock(own_cluster: Cluster) -> None:
    async with own_cluster.client() as client, candidate(client, "default", "first") as first:
        await leads(first)
        own_cluster.api.pause()
        async with asyncio.timeout(30):
            await first.wait(leading=False)
        assert not first.holds()
        own_cluster.api.resume()
        await leads(first)


async def test_deleted_lease_is_recreated(client: Client, cluster: Cluster, namespace: str) -> None:
    async with candidate(client, namespace, "first") as first:
        await leads(first)
        cluster.request("DELETE", LEASE.path(namespace, "operator"))
        await until_async(lambda: cluster.exists(LEASE.path(namespace, "operator")), "it stays away")
        await leads(first)


async def test_exactly_one_of_many_candidates_leads(client: Client, namespace: str) -> None:
    async with contextlib.AsyncExitStack() as stack:
        everybody = [await stack.enter_async_context(candidate(client, namespace, f"c{n}")) for n in range(5)]
        await until_async(lambda: all(one.leader for one in everybody), "all of them see a leader")
        assert sum(one.holds() for one in everybody) == 1


def test_lease_times_allowing_two_leaders_are_rejected() -> None:
    with pytest.raises(ValueError, match="renew_deadline < duration"):
        Election(None, namespace="n", name="l", identity="i", duration=10, renew_deadline=10)
