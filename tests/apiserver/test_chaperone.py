"""The chaperone in a cluster: what reaches traffic, and what stays when something is wrong."""

import asyncio

import pytest

from cluster.errors import Refused
from support.http.origins import Origin
from support.kube.pods.chaperone_process import NAME, SECONDS, SECRET, ChaperoneProcess, index, pod_address, routing
from varnish_gateway.emit.names import INDEX, MAIN_VCL, ROUTING
from varnish_gateway.emit.vcl import main_vcl


@pytest.fixture(scope="module")
def address():
    with pod_address() as address:
        yield address


@pytest.fixture(scope="module")
def tea(address):
    with Origin("tea", address=address) as origin:
        yield origin.endpoint


@pytest.fixture(scope="module")
def milk(address):
    with Origin("milk", address=address) as origin:
        yield origin.endpoint


@pytest.fixture
def origins(tea, milk):
    return tea, milk


@pytest.fixture
def chaperone(gateway, workdir):
    return ChaperoneProcess(gateway, gateway.grant(), workdir)


def vcl_with_header(word):
    return main_vcl().replace("ghost.deliver();", f'ghost.deliver(); set resp.http.Says = "{word}";')


def services(namespace, count):
    return [f"{namespace}/s{number}" for number in range(count)]


async def test_every_change_of_routing_endpoints_and_vcl_reaches_traffic(gateway, chaperone, tea, milk):
    one, two = f"{gateway.namespace}/one", f"{gateway.namespace}/two"
    gateway.write(one, generation=3)
    gateway.write_endpoints(one, tea)
    async with chaperone.running() as running:
        reported = await chaperone.until_served("generation", "3")
        assert (reported["status"], reported["upToDate"], reported["problems"], reported["awaySince"]) == (
            200,
            True,
            [],
            None,
        )
        assert (await chaperone.ask("one")).answered_by == "tea"

        gateway.write_endpoints(one, milk)
        await chaperone.until_answered_by("one", "milk")
        gateway.write(one, two, vcl=vcl_with_header("hello"), generation=4)
        await chaperone.until_served("generation", "4")
        assert (await chaperone.ask("two")).answered_by == 503
        gateway.write_endpoints(two, tea)
        await chaperone.until_answered_by("two", "tea")
        assert (await chaperone.ask("two")).header("says") == "hello"
        gateway.write(two, generation=5)
        await chaperone.until_served("generation", "5")
        assert (await chaperone.ask("one")).answered_by == 404
        metrics = await chaperone.metrics()
        assert "vgw_api_server_away_seconds 0.0" in metrics
        assert "vgw_watched_namespaces 1" in metrics
        assert 'vgw_kube_requests_total{verb="list",kind="ConfigMap",code="200"} 1' in metrics
    assert running.process.returncode == 0


async def test_chaperone_is_unready_until_vcl_routing_and_endpoints_exist(gateway, chaperone, tea):
    one = f"{gateway.namespace}/one"
    async with chaperone.running():
        reported = await chaperone.until_problem(f"ConfigMap {gateway.namespace}/{NAME}-vcl does not exist")
        assert (reported["status"], reported["reason"], reported["upToDate"]) == (503, "no VCL is in use", False)
        gateway.write_data({ROUTING: routing([one])[0]})
        await chaperone.until_problem("main.vcl: there is none yet")
        gateway.write_data({MAIN_VCL: main_vcl()})
        await chaperone.until_problem("routing.json: there is none yet")
        gateway.write_endpoints(one, tea)
        assert (await chaperone.served())["status"] == 503
        gateway.write(one, generation=2)
        reported = await chaperone.until_served("status", 200)
        assert (reported["generation"], reported["problems"]) == ("2", [])
        assert (await chaperone.ask("one")).answered_by == "tea"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({}, "routing.json: there is none yet"),
        ({MAIN_VCL: vcl_with_header("new"), ROUTING: "{half"}, "routing.json: "),
        ({MAIN_VCL: vcl_with_header("new"), ROUTING: '{"version": 7}'}, "routing.json: "),
        ({MAIN_VCL: vcl_with_header("new"), ROUTING: routing([])[0], INDEX: "[]"}, "shards.json: "),
        ({MAIN_VCL: vcl_with_header("new"), ROUTING: routing([], 2)[0]}, "it is one of 2 shards, and the index has 1"),
        (None, "does not exist"),
    ],
    ids=["empty", "malformed", "version", "index", "without-index", "deleted"],
)
async def test_invalid_configmap_keeps_the_last_good_routing(gateway, chaperone, origins, data, problem):
    tea, milk = origins
    one = f"{gateway.namespace}/one"
    gateway.write(one, generation=1)
    gateway.write_endpoints(one, tea)
    async with chaperone.running():
        await chaperone.until_served("generation", "1")
        if data is None:
            gateway.cluster.request("DELETE", gateway.path)
        else:
            gateway.write_data(data, generation=2)
        reported = await chaperone.until_problem(problem)
        assert (reported["status"], reported["upToDate"], reported["generation"]) == (200, False, "1")
        gateway.write_endpoints(one, milk)  # endpoints are not disturbed by it
        await chaperone.until_answered_by("one", "milk")
        gateway.write(one, generation=3)
        reported = await chaperone.until_served("generation", "3")
        assert (reported["upToDate"], reported["problems"]) == (True, [])


async def test_added_changed_and_removed_shards_reach_traffic(gateway, chaperone, tea, milk):
    names = services(gateway.namespace, 12)
    for name in names:
        gateway.write_endpoints(name, tea)
    gateway.write(*names, shards=4)
    async with chaperone.running():
        await chaperone.until_served("status", 200)
        for name in names:
            assert (await chaperone.ask(name.split("/")[1])).answered_by == "tea"
        assert 'vgw_kube_requests_total{verb="get",kind="ConfigMap",code="200"} 3' in await chaperone.metrics()

        fresh = f"{gateway.namespace}/fresh"
        gateway.write_endpoints(fresh, milk)
        gateway.write(*names, fresh, shards=4, generation=2)
        await chaperone.until_answered_by("fresh", "milk")
        # One route is in one shard; shard 0 needs no request.
        metrics = await chaperone.metrics()
        assert any(f'verb="get",kind="ConfigMap",code="200"}} {count}\n' in metrics for count in (3, 4))

        for generation, shards in ((3, 8), (4, 2), (5, 1)):
            gateway.write(*names, shards=shards, generation=generation)
            await chaperone.until_served("generation", str(generation))
            for name in names:
                assert (await chaperone.ask(name.split("/")[1])).answered_by == "tea"
            assert (await chaperone.ask("fresh")).answered_by == 404


async def test_an_index_ahead_of_its_shards_waits_for_them(gateway, chaperone, tea):
    names = services(gateway.namespace, 6)
    for name in names:
        gateway.write_endpoints(name, tea)
    gateway.write(*names[:3], generation=1)
    async with chaperone.running():
        await chaperone.until_served("generation", "1")
        texts = routing(names, 2)
        gateway.write_data({MAIN_VCL: main_vcl(), ROUTING: texts[0], INDEX: index(texts)}, generation=2)
        reported = await chaperone.until_problem("shard 1 of 2 does not exist yet")
        assert (reported["status"], reported["generation"]) == (200, "1")
        assert (await chaperone.ask("s0")).answered_by == "tea"
        gateway.write_shard(1, texts[1])
        await chaperone.until_served("generation", "2")
        for name in names:
            assert (await chaperone.ask(name.split("/")[1])).answered_by == "tea"


async def test_damaged_shard_leaves_other_shards_served(gateway, chaperone, tea):
    names = services(gateway.namespace, 8)
    for name in names:
        gateway.write_endpoints(name, tea)
    gateway.write(*names, shards=4)
    async with chaperone.running():
        await chaperone.until_served("status", 200)
        texts = routing([*names, f"{gateway.namespace}/x"], 4)
        changed = next(number for number, text in enumerate(texts) if '"x"' in text)
        broken = next(number for number in (1, 2, 3) if number != changed)
        if changed:
            gateway.write_shard(changed, texts[changed])
        gateway.write_shard(broken, "{half")
        texts[broken] = "{half"
        gateway.write_data({MAIN_VCL: main_vcl(), ROUTING: texts[0], INDEX: index(texts)}, generation=2)
        await chaperone.until_problem(f"{NAME}-vcl-{broken}, routing.json")
        await chaperone.until_answered_by("x", 503)  # it has no endpoints, but a route
        for name in names:
            assert (await chaperone.ask(name.split("/")[1])).answered_by == "tea"
        gateway.write(*names, shards=4, generation=3)
        assert (await chaperone.until_served("generation", "3"))["problems"] == []


async def test_forbidden_namespace_leaves_others_served_and_recovers_when_granted(gateway, chaperone, other, tea, milk):
    mine, theirs = f"{gateway.namespace}/mine", f"{other}/theirs"
    gateway.write_endpoints(mine, tea)
    gateway.write_endpoints(theirs, milk)
    gateway.write(mine, theirs)
    async with chaperone.running():
        await chaperone.until_answered_by("mine", "tea")
        assert (await chaperone.ask("theirs")).answered_by == 503
        reported = await chaperone.until_problem(f"namespace {other}: EndpointSlice may not be watched", "troubles")
        assert (reported["status"], reported["upToDate"], reported["awaySince"]) == (200, True, None)
        gateway.bind_endpoints(other)
        await chaperone.until_answered_by("theirs", "milk")
        gateway.write_endpoints(theirs, tea)
        await chaperone.until_answered_by("theirs", "tea")
        assert (await chaperone.served())["troubles"] == []


async def test_service_without_endpoint_slices_is_reported_until_it_has_some(gateway, chaperone, other, tea):
    mine, forbidden = f"{gateway.namespace}/mine", f"{other}/theirs"
    gateway.write(mine, forbidden)
    async with chaperone.running():
        await chaperone.until_answered_by("mine", 503)
        unserved = (await chaperone.served())["unserved"]
        assert unserved["count"] == 1, "nothing is known about a namespace that the pod may not read"
        assert unserved["first"][0].startswith(f"{mine}:")
        assert "no EndpointSlice has the label kubernetes.io/service-name: mine" in unserved["first"][0]
        gateway.write_endpoints(mine, tea)
        await chaperone.until_answered_by("mine", "tea")
        assert (await chaperone.served())["unserved"] == {"count": 0, "first": []}


async def test_routing_waits_for_the_first_list_of_a_new_namespace(gateway, chaperone, other, tea, milk):
    """From the first answer on, a route to a namespace that is new has its endpoints: never 503."""
    gateway.write_endpoints(f"{gateway.namespace}/mine", tea)
    gateway.write_endpoints(f"{other}/theirs", milk)
    gateway.write(f"{gateway.namespace}/mine")
    gateway.bind_endpoints(other)
    chaperone.wait_for_lists(SECONDS)  # on a slow machine a list may take longer than routing waits
    async with chaperone.running():
        await chaperone.until_answered_by("mine", "tea")
        gateway.write(f"{gateway.namespace}/mine", f"{other}/theirs")
        answerers = set()
        async with asyncio.timeout(SECONDS):
            while "milk" not in answerers:
                answerers.add((await chaperone.ask("theirs")).answered_by)
                assert answerers <= {404, "milk"}


def test_chaperone_may_read_only_its_own_objects(gateway, other):
    token = gateway.grant()
    mine = gateway.namespace

    def status(path):
        try:
            gateway.cluster.request("GET", path, token=token)
        except Refused as refused:
            return refused.status
        return 200

    gateway.write(f"{mine}/one")
    named = f"?fieldSelector=metadata.name%3D{NAME}-vcl"
    assert status(gateway.path) == 200
    assert status(f"/api/v1/namespaces/{mine}/configmaps{named}") == 200
    assert status(f"{gateway.path}-15") == 404
    assert status(f"/api/v1/namespaces/{mine}/secrets/{SECRET}") == 404
    assert status(f"/apis/discovery.k8s.io/v1/namespaces/{mine}/endpointslices") == 200
    for path in (
        f"/api/v1/namespaces/{mine}/configmaps",
        f"/api/v1/namespaces/{mine}/configmaps/other",
        f"{gateway.path}-99",
        f"/api/v1/namespaces/{mine}/secrets",
        f"/api/v1/namespaces/{mine}/secrets/other",
        f"/api/v1/namespaces/{mine}/services",
        f"/api/v1/namespaces/{mine}/pods",
        f"/api/v1/namespaces/{other}/configmaps/{NAME}-vcl",
        f"/apis/discovery.k8s.io/v1/namespaces/{other}/endpointslices",
        "/apis/discovery.k8s.io/v1/endpointslices",
        "/api/v1/configmaps",
        "/api/v1/namespaces",
        "/apis/gateway.networking.k8s.io/v1/gateways",
    ):
        assert status(path) == 403, path
    for method, path, body in (
        ("PATCH", gateway.path, {"data": {}}),
        ("DELETE", gateway.path, None),
        ("POST", f"/api/v1/namespaces/{mine}/configmaps", {"metadata": {"name": f"{NAME}-vcl-1"}}),
    ):
        with pytest.raises(Refused) as refused:
            gateway.cluster.request(method, path, body, content_type="application/merge-patch+json", token=token)
        assert refused.value.status == 403, (method, path)


async def test_chaperone_requests_nothing_forbidden(gateway, chaperone, tea):
    one = f"{gateway.namespace}/one"
    gateway.write_endpoints(one, tea)
    gateway.write(one, shards=2)
    async with chaperone.running():
        await chaperone.until_served("status", 200)
        await chaperone.until_answered_by("one", "tea")
        assert 'code="403"' not in await chaperone.metrics()
