"""Reflectors against a real API server, which is killed, restarted, compacted and misrepresented."""

import asyncio
import logging

import msgspec
import pytest

from cluster.apiserver.server import Cluster
from support.kube.mirror import decode_thing, mirror
from support.waiting import until_async
from varnish_gateway import errors
from varnish_gateway.kube.client import Client
from varnish_gateway.kube.resources import RESOURCES

ROUTE = RESOURCES["HTTPRoute"]
CONFIG_MAP = RESOURCES["ConfigMap"]
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def write(cluster: Cluster, name: str, turn: str, *, namespace: str = "default", port: int | None = None) -> None:
    """Create or change an HTTPRoute."""
    path = f"{ROUTE.path(namespace, name)}?fieldManager=test&force=true"
    document = {
        "apiVersion": ROUTE.api_version,
        "kind": "HTTPRoute",
        "metadata": {"name": name, "annotations": {"turn": turn}, "labels": {"named": name}},
        "spec": {"parentRefs": [{"name": "gw"}]},
    }
    cluster.request("PATCH", path, document, content_type="application/apply-patch+yaml", port=port)


def remove(cluster: Cluster, name: str, *, namespace: str = "default", port: int | None = None) -> None:
    cluster.request("DELETE", ROUTE.path(namespace, name), port=port)


# -- an ordinary life -------------------------------------------------------------------------


async def test_changes_are_delivered_as_they_happen(client: Client, cluster: Cluster, namespace: str) -> None:
    write(cluster, "a", "1", namespace=namespace)
    async with mirror(client, ROUTE, namespace=namespace) as mirrored:
        assert mirrored.now == {"a": "1"}
        write(cluster, "b", "1", namespace=namespace)
        write(cluster, "a", "2", namespace=namespace)
        await mirrored.until_equal(a="2", b="1")
        remove(cluster, "a", namespace=namespace)
        await mirrored.until_equal(b="1")
        assert mirrored.delivered == [("a", "1"), ("b", "1"), ("a", "2"), ("a", None)]
        assert client.metrics.objects["HTTPRoute"] == 1
    assert client.metrics.objects["HTTPRoute"] == 0


async def test_only_one_name_is_watched(client: Client, cluster: Cluster, namespace: str) -> None:
    write(cluster, "a", "1", namespace=namespace)
    async with mirror(client, ROUTE, namespace=namespace, name="b") as mirrored:
        write(cluster, "a", "2", namespace=namespace)
        write(cluster, "b", "1", namespace=namespace)
        await mirrored.until_equal(b="1")
        assert mirrored.delivered == [("b", "1")]


async def test_object_losing_its_label_is_delivered_as_deleted(
    client: Client, cluster: Cluster, namespace: str
) -> None:
    write(cluster, "a", "1", namespace=namespace)
    write(cluster, "b", "1", namespace=namespace)
    async with mirror(client, ROUTE, namespace=namespace, label_selector="named in (a, c)") as mirrored:
        assert mirrored.now == {"a": "1"}
        cluster.merge(ROUTE.path(namespace, "a"), {"metadata": {"labels": {"named": "x"}}})
        await mirrored.until_equal()


async def test_a_long_list_comes_in_pages(
    client: Client, cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("varnish_gateway.kube.watching.PAGE_SIZE", 3)
    expected = {f"r{number}": str(number) for number in range(8)}
    for name, turn in expected.items():
        write(cluster, name, turn, namespace=namespace)
    async with mirror(client, ROUTE, namespace=namespace) as mirrored:
        assert mirrored.now == expected
        assert client.metrics.requests["list", "HTTPRoute", 200] == 3


# -- restarts ---------------------------------------------------------------------------------


async def test_a_restart_loses_nothing_and_repeats_nothing(own_cluster: Cluster) -> None:
    other = own_cluster.start_second_api()
    own_cluster.await_path(ROUTE.path())
    for name in ("patched", "deleted", "same"):
        write(own_cluster, name, "1")
    async with own_cluster.client() as client, mirror(client, ROUTE) as mirrored:
        own_cluster.kill_api()
        await until_async(lambda: mirrored.reflector.unanswered, "the loss is not noticed")
        mirrored.drain_delivered()
        write(own_cluster, "patched", "2", port=other)
        write(own_cluster, "created", "1", port=other)
        remove(own_cluster, "deleted", port=other)
        own_cluster.start_api()
        await mirrored.until_equal(patched="2", created="1", same="1")
        assert sorted(mirrored.drain_delivered(), key=str) == [("created", "1"), ("deleted", None), ("patched", "2")]
        write(own_cluster, "same", "2")
        await mirrored.until_equal(patched="2", created="1", same="2")
        assert mirrored.drain_delivered() == [("same", "2")]
        assert mirrored.reflector.problem is None


async def test_restarts_in_the_middle_of_changes_lose_nothing(own_cluster: Cluster) -> None:
    other = own_cluster.start_second_api()
    own_cluster.await_path(ROUTE.path())
    expected: dict[str, str] = {}
    done = []

    def change() -> None:
        """Make 200 changes through the other API server."""
        for turn in range(200):
            name = f"r{turn % 7}"
            if turn % 5 == 4 and expected.pop(name, None):
                remove(own_cluster, name, port=other)
            else:
                write(own_cluster, name, str(turn), port=other)
                expected[name] = str(turn)
            done.append(turn)

    async with own_cluster.client() as client, mirror(client, ROUTE) as mirrored:
        changing = asyncio.create_task(asyncio.to_thread(change))
        for some in (20, 100):
            await until_async(lambda some=some: len(done) > some, "no changes", seconds=60)
            own_cluster.kill_api()
            await until_async(lambda: mirrored.reflector.unanswered, "the loss is not noticed")
            own_cluster.start_api()
        await changing
        await mirrored.until_equal(**expected)
        assert len(mirrored.delivered) <= 200


async def test_an_old_resource_version_means_a_new_list(own_cluster: Cluster) -> None:
    """Etcd forgets what happened, so the watch can't go on where it ended."""
    other = own_cluster.start_second_api()
    own_cluster.await_path(ROUTE.path())
    write(own_cluster, "a", "1")
    write(own_cluster, "b", "1")
    async with own_cluster.client() as client, mirror(client, ROUTE) as mirrored:
        own_cluster.kill_api()
        mirrored.drain_delivered()
        write(own_cluster, "c", "1", port=other)
        remove(own_cluster, "a", port=other)
        own_cluster.compact()
        own_cluster.start_api()
        await mirrored.until_equal(b="1", c="1")
        assert sorted(mirrored.drain_delivered(), key=str) == [("a", None), ("c", "1")]
        assert client.metrics.relists["HTTPRoute"] >= 1


async def test_paused_api_server_causes_no_relist(own_cluster: Cluster) -> None:
    async with own_cluster.client() as client, mirror(client, ROUTE) as mirrored:
        own_cluster.api.pause()
        own_cluster.api.resume()
        write(own_cluster, "a", "1")
        await mirrored.until_equal(a="1")
        assert client.metrics.relists["HTTPRoute"] == 0


# -- kinds that come and go -------------------------------------------------------------------


async def test_a_kind_that_is_absent_appears_and_disappears(own_cluster: Cluster) -> None:
    name = f"{ROUTE.plural}.{ROUTE.group}"
    crd = own_cluster.request("GET", f"{CRDS}/{name}")
    own_cluster.request("DELETE", f"{CRDS}/{name}")
    await until_async(lambda: not own_cluster.exists(f"{CRDS}/{name}"), "the CRD is gone")
    await until_async(lambda: not own_cluster.exists(ROUTE.path()), "the API server no longer serves the kind")
    async with own_cluster.client() as client, mirror(client, ROUTE) as mirrored:
        assert mirrored.reflector.absent
        assert mirrored.reflector.problem is None
        for turn in ("1", "2"):
            own_cluster.request("POST", CRDS, {**crd, "metadata": {"name": name, "annotations": _approved(crd)}})
            own_cluster.await_path(ROUTE.path())
            write(own_cluster, "a", turn)
            await mirrored.until_equal(a=turn)
            await until_async(lambda: not mirrored.reflector.absent, "the kind is present")
            own_cluster.request("DELETE", f"{CRDS}/{name}")
            await mirrored.until_equal()
            await until_async(lambda: mirrored.reflector.absent, "the kind is absent", seconds=60)
            await until_async(lambda: not own_cluster.exists(f"{CRDS}/{name}"), "the CRD is gone")


def _approved(crd: dict) -> dict:
    """Return the annotation without which the API server takes no CRD of its own groups."""
    name = "api-approved.kubernetes.io"
    return {name: crd["metadata"]["annotations"][name]}


async def test_former_version_is_used_when_the_newest_is_not_served(client: Client, cluster: Cluster) -> None:
    newer = RESOURCES["Gateway"]._replace(version="v9")
    async with mirror(client, newer, other_versions=("v8", "v1")) as mirrored:
        assert mirrored.reflector.resource.version == "v1"
        assert cluster.exists(mirrored.reflector.resource.path())


# -- rights and odd objects -------------------------------------------------------------------


async def test_restored_permission_resumes_the_watch(
    cluster: Cluster, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    bindings = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings"
    cluster.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "sa"}})
    binding = {
        "metadata": {"name": "b"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "sa", "namespace": namespace}],
    }
    token = cluster.service_account_token(namespace, "sa")
    path = CONFIG_MAP.path(namespace)
    async with cluster.client(token) as client:
        with caplog.at_level(logging.WARNING):
            async with mirror(client, CONFIG_MAP, namespace=namespace, wait=False) as mirrored:
                await until_async(lambda: mirrored.reflector.problem, "nothing is wrong")
                assert "forbidden" in mirrored.reflector.problem
                assert not mirrored.reflector.synced.is_set()
                cluster.request("POST", bindings, binding)
                cluster.request("POST", path, {"metadata": {"name": "a", "annotations": {"turn": "1"}}})
                await mirrored.until_equal(a="1")
                await until_async(lambda: mirrored.reflector.problem is None, "it does not heal")
    assert len([record for record in caplog.records if "may not be watched" in record.message]) == 1


async def test_undecodable_object_does_not_affect_others(
    client: Client, cluster: Cluster, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    def picky(raw: msgspec.Raw):
        thing = decode_thing(raw)
        if thing.turn == "bad":
            raise errors.BadDocument("turn is bad")
        return thing

    write(cluster, "new", "bad", namespace=namespace)
    write(cluster, "old", "1", namespace=namespace)
    async with mirror(client, ROUTE, namespace=namespace, decode=picky) as mirrored:
        assert mirrored.now == {"old": "1"}
        write(cluster, "old", "bad", namespace=namespace)
        write(cluster, "other", "1", namespace=namespace)
        await mirrored.until_equal(old="1", other="1")
        write(cluster, "old", "3", namespace=namespace)
        write(cluster, "new", "2", namespace=namespace)
        await mirrored.until_equal(old="3", other="1", new="2")
    assert len([record for record in caplog.records if "can't decode" in record.message]) == 2
    assert client.metrics.undecodable["HTTPRoute"] == 2
