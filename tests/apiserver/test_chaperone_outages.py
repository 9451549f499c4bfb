"""The chaperone while the API server is away, over restarts, and at its end."""

import asyncio
import contextlib
import signal

import pytest

from support.http import client as http_client
from support.http.origins import Origin
from support.kube.pods.chaperone_process import ChaperoneProcess, ProvisionedGateway, pod_address, routing
from support.waiting import until_async
from varnish_gateway.emit.names import MAIN_VCL, ROUTING


@pytest.fixture(scope="module")
def origins():
    """Two endpoints: tea and milk."""
    with (
        pod_address() as address,
        Origin("tea", address=address) as tea,
        Origin("milk", address=address) as milk,
    ):
        yield tea.endpoint, milk.endpoint


@pytest.fixture
def fragile(own_cluster):
    """Give a Gateway of a cluster whose API server may be killed."""
    own_cluster.create_namespace("shop")
    return ProvisionedGateway(own_cluster, "shop")


@contextlib.asynccontextmanager
async def always_taken(chaperone, host, answerers):
    """Ask all the time; every answer has to come from one of these."""
    seen, done = [], asyncio.Event()

    async def ask():
        while not done.is_set():
            seen.append((await chaperone.ask(host)).answered_by)

    asking = asyncio.create_task(ask())
    try:
        yield seen
    finally:
        done.set()
        await asking
    assert seen
    assert set(seen) <= answerers


async def test_api_server_outage_keeps_traffic_and_loses_no_change(fragile, workdir, origins):
    tea, milk = origins
    one, two = "shop/one", "shop/two"
    fragile.write(one, generation=1)
    fragile.write_endpoints(one, tea)
    fragile.write_endpoints(two, tea)
    chaperone = ChaperoneProcess(fragile, fragile.grant(), workdir)
    async with chaperone.running() as running:
        await chaperone.until_served("generation", "1")
        second = await asyncio.to_thread(fragile.cluster.start_second_api)
        fragile.cluster.kill_api()
        reported = await chaperone.until_served("awaySince", bool)
        assert (reported["status"], reported["problems"]) == (200, [])
        assert any("ConfigMap can't be watched now" in trouble for trouble in reported["troubles"])
        assert "vgw_api_server_away_seconds 0.0\n" not in await chaperone.metrics()
        async with always_taken(chaperone, "one", {"tea", "milk"}):
            fragile.write_endpoints(one, milk, api_port=second)
            fragile.remove_endpoints(two, api_port=second)
            await asyncio.to_thread(fragile.cluster.start_api)
            await chaperone.until_answered_by("one", "milk")
        await chaperone.until_served("awaySince", None)
        assert (await chaperone.until_served("troubles", []))["upToDate"]
        fragile.write(one, two, generation=2)
        await chaperone.until_served("generation", "2")
        await chaperone.until_answered_by("two", 503)
        await running.wait_for_message("the API server answers again")


async def test_restart_without_api_server_serves_the_last_configuration(fragile, workdir, origins):
    tea, milk = origins
    names = [f"shop/s{number}" for number in range(4)]
    for name in names:
        fragile.write_endpoints(name, tea)
    fragile.write(*names, shards=2, generation=7)
    chaperone = ChaperoneProcess(fragile, fragile.grant(), workdir)
    async with chaperone.running() as running:
        await chaperone.until_served("generation", "7")
        await until_async((workdir / "work" / "last" / "last.json").exists, "it is on disk")
        running.process.kill()
    second = await asyncio.to_thread(fragile.cluster.start_second_api)
    fragile.cluster.kill_api()
    async with chaperone.running() as running:
        reported = await chaperone.until_served("status", 200)
        assert (reported["generation"], reported["upToDate"]) == ("7", False)
        await chaperone.until_served("awaySince", bool)
        for name in names:
            assert (await chaperone.ask(name.split("/")[1])).answered_by == "tea"
        fragile.write_endpoints(names[0], milk, api_port=second)
        async with always_taken(chaperone, "s0", {"tea", "milk"}), always_taken(chaperone, "s1", {"tea"}):
            await asyncio.to_thread(fragile.cluster.start_api)
            await chaperone.until_answered_by("s0", "milk")
            await chaperone.until_served("upToDate", expected=True)
        fragile.write(*names[1:], shards=1, generation=8)
        await chaperone.until_served("generation", "8")
        assert (await chaperone.ask("s0")).answered_by == 404
        assert (await chaperone.ask("s3")).answered_by == "tea"
        # Shards that are the same as on disk are not asked for.
        assert 'verb="get",kind="ConfigMap"' not in await chaperone.metrics()


async def test_pools_on_disk_are_kept_where_endpoints_became_forbidden(gateway, workdir, origins):
    tea, milk = origins
    cluster, other = gateway.cluster, f"{gateway.namespace}-other"
    mine, theirs = f"{gateway.namespace}/mine", f"{other}/theirs"
    cluster.create_namespace(other)
    gateway.write_endpoints(mine, tea)
    gateway.write_endpoints(theirs, tea)
    gateway.write(mine, theirs)
    chaperone = ChaperoneProcess(gateway, gateway.grant(), workdir)
    gateway.bind_endpoints(other)
    async with chaperone.running():
        await chaperone.until_served("generation", "1")
        await chaperone.until_answered_by("theirs", "tea")
    gateway.unbind_endpoints(other)
    gateway.write_endpoints(mine, milk)
    async with chaperone.running():
        async with always_taken(chaperone, "theirs", {0, "tea"}):
            await chaperone.until_answered_by("mine", "milk")
            await chaperone.until_problem(f"namespace {other}", "troubles")
            gateway.write(mine, theirs, generation=2)
            await chaperone.until_served("generation", "2")
        gateway.write_endpoints(theirs, milk)
        gateway.bind_endpoints(other)
        await chaperone.until_answered_by("theirs", "milk")
    cluster.clear_namespace(other)


@pytest.fixture
async def stopped_chaperone(gateway, workdir, origins):
    """Give a chaperone that has served one Service and stopped, and that Service."""
    tea, _ = origins
    one = f"{gateway.namespace}/one"
    gateway.write(one)
    gateway.write_endpoints(one, tea)
    chaperone = ChaperoneProcess(gateway, gateway.grant(), workdir)
    async with chaperone.running():
        await chaperone.until_served("generation", "1")
    return chaperone, one


async def test_invalid_vcl_after_a_restart_keeps_the_one_on_disk(gateway, stopped_chaperone):
    chaperone, one = stopped_chaperone
    gateway.write_data({MAIN_VCL: "vcl 4.1; nonsense", ROUTING: routing([one])[0]}, generation=2)
    async with chaperone.running():
        await chaperone.until_answered_by("one", "tea")
        reported = await chaperone.until_served(
            "problems", lambda problems: any("nonsense" in each for each in problems)
        )
        assert (reported["status"], reported["generation"], reported["upToDate"]) == (200, "1", False)
        gateway.write(one, generation=3)
        await chaperone.until_served("generation", "3")


async def test_damaged_files_on_disk_are_ignored(stopped_chaperone, workdir):
    chaperone, _ = stopped_chaperone
    for path in (workdir / "work" / "last").glob("routing-*"):
        path.write_text("{half")
    async with chaperone.running() as running:
        await running.wait_for_message("the last configuration on disk is not usable")
        await chaperone.until_answered_by("one", "tea")


async def test_drain_turns_unready_first_and_exits_when_clients_have_left(gateway, workdir, origins):
    tea, milk = origins
    one = f"{gateway.namespace}/one"
    gateway.write(one)
    gateway.write_endpoints(one, tea)
    times = {"DRAIN_SECONDS": "60", "DRAIN_DELAY_SECONDS": "1", "VARNISHD_EXTRA_ARGS": "-p;timeout_idle=60"}
    chaperone = ChaperoneProcess(gateway, gateway.grant(), workdir, **times)
    async with chaperone.running() as running:
        await chaperone.until_answered_by("one", "tea")
        connection = http_client.Connection(chaperone.port)
        assert (await connection.ask("one")).answered_by == "tea"
        running.process.send_signal(signal.SIGTERM)
        reported = await chaperone.until_served("status", 503)
        assert reported["reason"] == "draining"
        # New connections are still taken, and changes are still followed.
        gateway.write_endpoints(one, milk)
        await chaperone.until_answered_by("one", "milk")
        last = await connection.ask("one")
        assert (last.answered_by, last.header("connection")) == ("milk", "close")
        assert running.process.returncode is None
        async with asyncio.timeout(50):
            assert await running.process.wait() == 0
    assert (await chaperone.ask("one")).answered_by == 0
