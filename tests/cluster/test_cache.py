"""The cache of a Gateway with several pods: invalidations reach all of them, and dead backends are no errors."""

import asyncio
import contextlib
import http.client
import json
import time
from collections.abc import Iterator

import pytest

from cluster import install
from cluster.api import Api, Document
from support.http.traffic import Target, traffic
from support.kube.cluster_harness import ClusterHarness, class_parameters
from support.kube.documents import route, token_secret
from varnish_gateway.api.gateway_networking import INVALIDATION_TOKENS

REPLICAS = 3
HOST, TOKEN = "a.test", "0123456789abcdef0123456789abcdef"
PATHS = [f"/page-{number}" for number in range(5)]
SERVICE = f"/api/v1/namespaces/{install.SYSTEM}/services/{install.RELEASE}-operator-invalidation"
MEASURED = 200
"""Invalidations for the time that an answer takes."""
PAUSE_SECONDS = 0.06
"""Between them: a namespace may send 20 a second."""


@pytest.fixture
def three_replicas(api: Api) -> Iterator[None]:
    """Have three pods for each Gateway."""
    with class_parameters(api, "three-replicas", replicas=REPLICAS):
        yield


class Shop:
    """A Gateway whose pods cache what an echo server answers, and its address for invalidations."""

    def __init__(self, harness: ClusterHarness, **policy: str) -> None:
        self.harness = harness
        harness.echo("echo")
        harness.put(token_secret(harness.namespace, "purgers", {"name": "test", "token": TOKEN}))
        self.address = harness.gateway()
        annotation = {"metadata": {"annotations": {INVALIDATION_TOKENS: "purgers"}}}
        harness.api.merge(harness.path("Gateway", "gateway"), annotation)
        target = {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "gateway"}
        harness.put(
            {
                "apiVersion": "gateway.varnish-software.com/v1alpha1",
                "kind": "VarnishCachePolicy",
                "metadata": {"name": "pages", "namespace": harness.namespace},
                "spec": {"targetRef": target, "cacheStatus": "On", **policy},
            },
            route(harness.namespace, "route", "gateway", host=HOST, backend={"name": "echo"}),
        )
        self.operator = str(harness.api.get(SERVICE)["spec"]["clusterIP"])
        harness.wait_for(lambda: len(self.ready()) == REPLICAS, "all pods are ready")
        for path in PATHS:
            for pod in self.ready():
                harness.wait_for(lambda pod=pod, path=path: self.is_stored(pod, path), f"{pod} has stored {path}")

    def pods(self) -> dict[str, Document]:
        labels = {"gateway.networking.k8s.io/gateway-name": "gateway"}
        return {pod["metadata"]["name"]: pod for pod in self.harness.pods(**labels)}

    def ready(self) -> dict[str, str]:
        """Return the addresses of pods that serve, by name."""
        return {
            name: pod["status"]["podIP"]
            for name, pod in self.pods().items()
            if "deletionTimestamp" not in pod["metadata"]
            and any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", ()))
        }

    def is_stored(self, pod: str, path: str) -> bool:
        """Ask a pod; return whether it answered from its cache. If not, it has stored the response now."""
        return "; hit" in self.get(pod, path)

    def get(self, pod: str, path: str) -> str:
        """Return the Cache-Status of a pod's response, "" where it is another one than 200."""
        connection = http.client.HTTPConnection(self.ready().get(pod, "192.0.2.1"), 80, timeout=5)
        with contextlib.closing(connection):
            connection.request("GET", path, headers={"Host": HOST})
            answer = connection.getresponse()
            answer.read()
            return answer.getheader("Cache-Status", "") if answer.status == 200 else ""

    def purge(self, *targets: Document) -> tuple[int, Document]:
        """Send an invalidation to the address of the Gateway; return status and answer."""
        connection = http.client.HTTPConnection(self.operator, 80, timeout=60)
        with contextlib.closing(connection):
            page = f"/gateways/{self.harness.namespace}/gateway/invalidate"
            document = json.dumps({"targets": targets})
            connection.request("POST", page, document, {"Authorization": f"Bearer {TOKEN}"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

    def until_purged(self) -> None:
        """Wait until the operators have read annotation and Secret: any of them may answer."""
        for _ in range(10):
            self.harness.wait_for(lambda: self.purge({"uri": uri("/nothing")})[0] == 200, "a purge is confirmed")


def uri(path: str) -> Document:
    return {"host": HOST, "target": path}


def results(answer: Document) -> dict[str, str]:
    return {one["name"]: one["result"] for one in answer["pods"]}


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("three_replicas")
def test_purge_reaches_every_pod_and_its_answer_is_true_while_one_is_killed_and_another_joins(harness: ClusterHarness):
    shop = Shop(harness, defaultTTL="1h")
    shop.until_purged()
    first = shop.ready()

    status, answer = shop.purge({"uri": uri(PATHS[0])}, {"host": HOST})
    assert (status, results(answer)) == (200, dict.fromkeys(first, "confirmed"))
    assert answer["objects"] == [REPLICAS, REPLICAS * (len(PATHS) - 1)]
    assert [one["objects"] for one in answer["pods"]] == [len(PATHS)] * REPLICAS
    assert [shop.is_stored(pod, path) for pod in first for path in PATHS] == [False] * REPLICAS * len(PATHS)

    victim, seen = min(first), set[str]()
    harness.api.request("DELETE", f"{harness.path('Pod', victim)}?gracePeriodSeconds=1")

    def has_joined() -> bool:
        """Purge what every pod that serves has stored; return whether all of them are as many as before again."""
        before = serving(shop, victim)
        status, answer = shop.purge({"uri": uri(PATHS[0])})
        assert status == 200, answer
        named, after = results(answer), shop.ready()
        seen.update(f"{name} {result}" for name, result in named.items())
        assert before & after.keys() <= named.keys(), "every pod that served all the time is named"
        for pod in before & after.keys():
            assert named[pod] == "confirmed"
            assert not shop.is_stored(pod, PATHS[0]), f"{pod} has confirmed, but still has the object"
        return victim not in shop.pods() and len(before & after.keys()) == REPLICAS

    harness.wait_for(has_joined, "another pod has joined")
    last = shop.ready()
    assert victim not in last
    assert f"{victim} unanswered" not in seen
    serving(shop, victim)
    status, answer = shop.purge({"uri": uri(PATHS[0])})
    assert (status, results(answer)) == (200, dict.fromkeys(last, "confirmed"))
    assert answer["objects"] == [REPLICAS], "the pod that is gone counts no more, and the new one does"
    print(f"answers while a pod was killed and another joined: {sorted(seen)}")
    print(f"time of an answer with {REPLICAS} pods: {measured(shop)}")


def serving(shop: Shop, victim: str) -> set[str]:
    """Have every pod that serves store a page; return these pods. One that is being killed may answer, or not."""
    stored = set()
    for pod in shop.ready():
        try:
            shop.is_stored(pod, PATHS[0])
            stored.add(pod)
        except (OSError, http.client.HTTPException):
            assert pod == victim
    return stored


def measured(shop: Shop) -> str:
    """Return how long answers take. No limit is asserted: other work of this machine counts."""
    times = []
    for _ in range(MEASURED):
        began = time.monotonic()
        status, answer = shop.purge({"uri": uri(PATHS[0])})
        times.append(time.monotonic() - began)
        time.sleep(PAUSE_SECONDS)
        assert (status, len(answer["pods"])) == (200, REPLICAS)
    times.sort()
    return f"median {times[MEASURED // 2] * 1000:.0f} ms, p99 {times[MEASURED * 99 // 100] * 1000:.0f} ms"


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("three_replicas")
async def test_killed_backends_cause_no_error_for_what_may_be_served_stale(harness: ClusterHarness):
    shop = await asyncio.to_thread(Shop, harness, defaultTTL="1s", staleIfError="10m")
    echo = harness.path("Deployment", "echo")
    async with contextlib.AsyncExitStack() as load:
        reports = [
            await load.enter_async_context(traffic(Target(shop.address, HOST, path=path), senders=3, gap=0.01))
            for path in PATHS
        ]

        def answered() -> int:
            return sum(report.answered for report in reports)

        def are_stale() -> bool:
            """Whether each pod serves each page, although it is stale."""
            return all("ttl=-" in shop.get(pod, path) for pod in shop.ready() for path in PATHS)

        await asyncio.to_thread(harness.wait_for, lambda: answered() > 500, "there is load")
        await asyncio.to_thread(kill, harness, echo)
        await asyncio.to_thread(harness.wait_for, are_stale, "every page is stale in every pod")
        before = answered()
        await asyncio.to_thread(harness.wait_for, lambda: answered() > before + 3000, "stale pages are served")
        assert await asyncio.to_thread(are_stale)
        killed = set().union(*(report.pods for report in reports))
        harness.api.merge(echo, {"spec": {"replicas": 1}})
        await asyncio.to_thread(harness.rolled_out, "echo")
        await asyncio.to_thread(
            harness.wait_for, lambda: all(report.pods.keys() - killed for report in reports), "pages are fresh again"
        )
    assert [report.failures for report in reports] == [[]] * len(PATHS)
    assert {status for report in reports for status in report.statuses} == {200}


def kill(harness: ClusterHarness, deployment: str) -> None:
    """Kill all pods of the echo server at once, and have no others."""
    harness.api.merge(deployment, {"spec": {"replicas": 0}})
    for pod in harness.pods(app="echo"):
        harness.api.request("DELETE", f"{harness.path('Pod', pod['metadata']['name'])}?gracePeriodSeconds=0")
    harness.wait_for(lambda: not harness.pods(app="echo"), "no backend is left")
