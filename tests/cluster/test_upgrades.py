"""A Gateway is upgraded from the previous version under load, its operator first or its pods first."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from cluster import images, inside, install, layout
from cluster.api import Api, Document
from support import certificates
from support.http.traffic import Target, TrafficReport, probe, traffic
from support.kube.cluster_harness import ClusterHarness, class_parameters, is_rolled_out
from support.kube.documents import route
from support.waiting import until_async
from varnish_gateway.emit import names
from varnish_gateway.ir.status import WITHHELD

ROUTES = 5000
REPLICAS = 3
PREVIOUS = layout.PREVIOUS / "charts" / "varnish-gateway"
TAG = "previous"
SMALL: Document = {
    "replicas": REPLICAS,
    "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}},
    "varnishdExtraArgs": ["-s", "malloc,16m", "-p", "thread_pool_min=10"],
}
MINUTES = 60.0
SENDERS = 4
MOST_RESENT = 2 * REPLICAS * SENDERS
"""Once for each kept connection to each pod of the previous version, in two rollouts."""
SECURE_HOST = "r0.test"
AUTHORITY = certificates.authority("upgrades")
CERTIFICATE = AUTHORITY.issue(SECURE_HOST)
LISTENERS: list[Document] = [
    {"name": "http", "port": 80, "protocol": "HTTP"},
    {
        "name": "https",
        "port": 443,
        "protocol": "HTTPS",
        "tls": {"certificateRefs": [{"name": "certificate"}]},
    },
]
GAP = 0.05
"""Between two requests of a sender: some 100 requests a second leave the processor to what is upgraded."""


@pytest.fixture
def previous_operator(api: Api) -> Iterator[None]:
    """Have the operator and the pods of the previous version; small pods, because there are many."""
    images.import_previous()
    install.chart(PREVIOUS)
    with class_parameters(api, "upgrades", **SMALL):
        yield
    install.chart()


def half_invalid(harness: ClusterHarness) -> Document:
    """Return a route with a mark on its first rule that pods of the previous version don't understand."""
    made = route(harness.namespace, "half-invalid", "gateway", host="half-invalid.test", backend={"name": "echo"})
    invalid = {"matches": [{"path": {"type": "RegularExpression", "value": "/(("}}]}
    made["spec"]["rules"][:0] = [invalid]
    return made


async def create_routes(harness: ClusterHarness) -> None:
    """Create all routes."""
    documents = [
        route(harness.namespace, f"r{number}", "gateway", host=f"r{number}.test", backend={"name": "echo"})
        for number in range(ROUTES)
    ]
    for document in [half_invalid(harness), *documents]:
        await asyncio.to_thread(harness.create, document)


async def served(harness: ClusterHarness) -> str:
    """Have a Gateway of the previous version with all its routes; return its address."""
    await asyncio.to_thread(harness.echo, "echo")
    await asyncio.to_thread(harness.put, CERTIFICATE.secret(harness.namespace, "certificate"))
    address = await asyncio.to_thread(harness.gateway, listeners=LISTENERS)
    await create_routes(harness)
    await rolled_out(harness, TAG)
    await reached(plain(address, f"r{ROUTES - 1}.test"))
    await reached(secure(address))
    return address


def plain(address: str, host: str) -> Target:
    return Target(address, host)


def secure(address: str) -> Target:
    """Return the first route over TLS."""
    return Target(address, SECURE_HOST, 443, tls=ssl.create_default_context(cadata=AUTHORITY.own.decode()))


async def reached(target: Target) -> None:
    """Wait until each pod serves a target, as far as many connections in a row tell."""
    good = 0
    async with asyncio.timeout(10 * MINUTES):
        while good < 10 * REPLICAS:
            statuses, _ = await probe(target)
            good = good + 1 if set(statuses) == {200} else 0


@contextlib.asynccontextmanager
async def under_load(address: str) -> AsyncIterator[list[TrafficReport]]:
    """Send requests for the first and the last route, over kept and over new connections, and over TLS.

    A pod of the previous version cuts kept connections when it ends, and clients send what they meant to send there
    again. A pod of this version asks its clients to leave: see ``forbid_resends``.
    """
    async with (
        traffic(plain(address, "r0.test"), senders=SENDERS, gap=GAP, may_resend=True) as kept,
        traffic(plain(address, f"r{ROUTES - 1}.test"), senders=SENDERS, fresh=True, gap=GAP) as fresh,
        traffic(secure(address), senders=SENDERS // 2, gap=GAP, may_resend=True) as kept_tls,
        traffic(secure(address), senders=SENDERS // 2, fresh=True, gap=GAP) as fresh_tls,
    ):
        yield [kept, fresh, kept_tls, fresh_tls]


def deployment(harness: ClusterHarness) -> Document | None:
    return harness.get("Deployment", "gateway") or harness.get("Deployment", "gateway-vgw")


def pods(harness: ClusterHarness) -> list[Document]:
    return harness.pods(**{"gateway.networking.k8s.io%2Fgateway-name": "gateway"})


def tags(harness: ClusterHarness) -> set[str]:
    """Return the tags of the images that all pods of the Gateway run."""
    return {pod["spec"]["containers"][0]["image"].rpartition(":")[2] for pod in pods(harness)}


async def eventually(look: Callable[[], bool], what: str) -> None:
    """Wait for what takes minutes. A look a second leaves the processor to what is waited for."""
    await until_async(lambda: asyncio.to_thread(look), what, 10 * MINUTES, gap=1.0)


async def rolled_out(harness: ClusterHarness, tag: str, *, is_of_new_operator: bool = False) -> None:
    """Wait until all pods have an image with this tag, in the template of the previous or the new operator."""

    def look() -> bool:
        found = deployment(harness)
        has_mark = found is not None and names.TEMPLATE in found["metadata"]["annotations"]
        return is_rolled_out(found) and has_mark == is_of_new_operator and tags(harness) == {tag}

    await eventually(look, f"all pods run {tag}")


def conditions(harness: ClusterHarness) -> dict[str, Document]:
    found = harness.get("Gateway", "gateway") or {}
    return {one["type"]: one for one in found["status"]["conditions"]}


async def new_route_is_served(harness: ClusterHarness, address: str, name: str) -> None:
    """Wait for a new route, which shows that operator and pods of these versions understand each other."""
    made = route(harness.namespace, name, "gateway", host=f"{name}.test", backend={"name": "echo"})
    await asyncio.to_thread(harness.create, made)
    await reached(plain(address, f"{name}.test"))


def forbid_resends(harness: ClusterHarness, reports: list[TrafficReport]) -> None:
    """Let no request be sent again from now on: the last pod of the previous version is gone."""
    assert tags(harness) == {current()}
    for report in reports:
        report.may_resend = False


def assert_nothing_failed(reports: list[TrafficReport]) -> None:
    for report in reports:
        assert report.answered > 100
        assert not report.failures
        assert report.resent <= MOST_RESENT
        assert set(report.statuses) == {200}, report.statuses


def current() -> str:
    """Return the tag of this version's images."""
    chart = (install.CHART / "Chart.yaml").read_text().splitlines()
    return next(line.split(":")[1].strip().strip('"') for line in chart if line.startswith("appVersion"))


@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("previous_operator")
async def test_operator_before_pods_fails_no_request(harness: ClusterHarness):
    address = await served(harness)
    async with under_load(address) as reports:
        await asyncio.to_thread(install.chart, images__gateway__tag=TAG)
        await eventually(lambda: WITHHELD in conditions(harness), "the new operator withholds something")
        await rolled_out(harness, TAG, is_of_new_operator=True)
        assert conditions(harness)["Programmed"]["status"] == "True"
        await new_route_is_served(harness, address, "between")
        await asyncio.to_thread(install.chart)
        await rolled_out(harness, current(), is_of_new_operator=True)
        await eventually(lambda: WITHHELD not in conditions(harness), "all pods understand everything")
        await new_route_is_served(harness, address, "after")
    assert_nothing_failed(reports)


@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("previous_operator")
async def test_pods_before_operator_fails_no_request(harness: ClusterHarness):
    address = await served(harness)
    async with under_load(address) as reports:
        await asyncio.to_thread(install.chart, PREVIOUS, images__gateway__tag=current())
        await rolled_out(harness, current())
        forbid_resends(harness, reports)
        await new_route_is_served(harness, address, "between")
        await asyncio.to_thread(install.chart)
        await rolled_out(harness, current(), is_of_new_operator=True)
        await new_route_is_served(harness, address, "after")
        assert WITHHELD not in conditions(harness)
    assert_nothing_failed(reports)


def test_images_of_both_versions_are_here():
    listed = inside.ctr("images", "list", "--quiet").split()
    assert {name.rpartition(":")[2] for name in listed if "varnish-gateway" in name} >= {TAG, current()}
