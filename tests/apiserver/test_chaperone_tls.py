"""The chaperone's certificates from its Secret: they reach traffic, and the last good stays."""

from pathlib import Path

import pytest

from support.http import client as http_client
from support.http.origins import Origin
from support.kube.chaperone_process import NAME, ChaperoneProcess, pod_address
from support.varnish.tls import certificate_of, pair, secure, tls
from varnish_gateway.emit.routing import content_hash
from varnish_gateway.emit.tls import encode_tls
from varnish_gateway.ir import Tls
from varnish_gateway.kube.resources import RESOURCES


@pytest.fixture(scope="module")
def tea():
    with pod_address() as address, Origin("tea", address=address) as origin:
        yield origin.endpoint


@pytest.fixture
def chaperone(gateway, place, tea):
    made = ChaperoneProcess(gateway, gateway.grant(), place)
    made.environment["VARNISH_LISTEN"] += f";https-{made.tls_port}=127.0.0.1:{made.tls_port},https"
    gateway.write(f"{gateway.namespace}/one")
    gateway.write_endpoints(f"{gateway.namespace}/one", tea)
    return made


def hash_of(wanted):
    return content_hash(encode_tls(wanted))


async def test_certificates_follow_the_secret(gateway, chaperone):
    port = chaperone.tls_port
    first, second = tls(port, (pair("one"), ["one"])), tls(port, (pair("one", 1), ["one"]), (pair("two"), ["two"]))
    gateway.write_secret(first)
    async with chaperone.running() as running:
        said = await chaperone.until_served("tls", hash_of(first))
        assert (said["status"], said["upToDate"], said["problems"]) == (200, True, [])
        assert (await http_client.ask(secure(port, "one"), "one")).taker == "tea"

        gateway.write_secret(second)
        await chaperone.until_served("tls", hash_of(second))
        assert await certificate_of(port, "one") == pair("one", 1).der
        assert await certificate_of(port, "two") == pair("two").der
        metrics = await chaperone.metrics()
        assert f'vgw_tls_requests_total{{socket="https-{port}"}} ' in metrics
        assert f'vgw_certificate_expiry_timestamp_seconds{{port="{port}",names="two"}}' in metrics
        assert "vgw_certificate_changes_total 1" in metrics

        gateway.write_secret(None)
        await chaperone.until_served("tls", hash_of(Tls()))
        with pytest.raises(ConnectionRefusedError):
            await certificate_of(port, "one")
        assert (await chaperone.ask("one")).taker == "tea"
    said = "\n".join(str(record) for record in running.log)
    assert "PRIVATE KEY" not in said
    assert pair("one").key.decode().splitlines()[1] not in said


async def test_inconsistent_secret_keeps_the_last_good_certificates(gateway, chaperone):
    port = chaperone.tls_port
    good, next_one = tls(port, (pair("one"), ["one"])), tls(port, (pair("one", 1), ["one"]))
    gateway.write_secret(good)
    async with chaperone.running():
        await chaperone.until_served("tls", hash_of(good))
        name = next(iter(next_one.files))
        gateway.write_secret(Tls(next_one.ports, {}))
        said = await chaperone.until_problem(f"{NAME}-tls: {name}, which tls.json names, is not there")
        assert (said["status"], said["tls"], said["upToDate"]) == (200, hash_of(good), False)
        gateway.write_secret(Tls(next_one.ports, {name: b"something else"}))
        await chaperone.until_problem(f"{name} does not match the hash in its name")
        gateway.cluster.request("DELETE", RESOURCES["Secret"].path(gateway.namespace, f"{NAME}-tls"))
        await chaperone.until_problem(f"Secret {gateway.namespace}/{NAME}-tls does not exist")
        assert await certificate_of(port, "one") == pair("one").der

        gateway.write_secret(next_one)
        said = await chaperone.until_served("tls", hash_of(next_one))
        assert (await chaperone.until_served("problems", []))["upToDate"]
        assert await certificate_of(port, "one") == pair("one", 1).der


async def test_without_a_secret_plain_listeners_serve(gateway, chaperone):
    async with chaperone.running():
        await chaperone.until_taken("one", "tea")
        assert (await chaperone.until_served("ready", True))["tls"] is None
        wanted = tls(chaperone.tls_port, (pair("one"), ["one"]))
        gateway.write_secret(wanted)
        await chaperone.until_served("tls", hash_of(wanted))
        assert (await http_client.ask(secure(chaperone.tls_port, "one"), "one")).taker == "tea"


async def test_restart_without_api_server_serves_certificates_from_disk(gateway, chaperone):
    wanted = tls(chaperone.tls_port, (pair("one"), ["one"]))
    gateway.write_secret(wanted)
    async with chaperone.running():
        await chaperone.until_served("tls", hash_of(wanted))
    kubeconfig = Path(chaperone.environment["KUBECONFIG"])
    nowhere = kubeconfig.with_name("nowhere")
    nowhere.write_text(kubeconfig.read_text().replace(f":{gateway.cluster.port}", ":1"))
    chaperone.environment["KUBECONFIG"] = str(nowhere)
    async with chaperone.running():
        said = await chaperone.until_served("tls", hash_of(wanted))
        assert said["status"] == 200
        assert (await http_client.ask(secure(chaperone.tls_port, "one"), "one")).taker == "tea"
