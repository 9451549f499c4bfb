"""The chaperone's certificates from its Secret: they reach traffic, and the last good stays."""

from pathlib import Path

import pytest

from support.http import client as http_client
from support.http.origins import Origin
from support.kube.pods.chaperone_process import SECRET, ChaperoneProcess, pod_address
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
def chaperone(gateway, workdir, tea):
    made = ChaperoneProcess(gateway, gateway.grant(), workdir)
    made.environment["VARNISH_LISTEN"] += f";https-{made.tls_port}=127.0.0.1:{made.tls_port},https"
    gateway.write(f"{gateway.namespace}/one")
    gateway.write_endpoints(f"{gateway.namespace}/one", tea)
    return made


def hash_of(desired):
    return content_hash(encode_tls(desired))


async def test_certificates_follow_the_secret(gateway, chaperone):
    port = chaperone.tls_port
    first, second = tls(port, (pair("one"), ["one"])), tls(port, (pair("one", 1), ["one"]), (pair("two"), ["two"]))
    gateway.write_secret(first)
    async with chaperone.running() as running:
        reported = await chaperone.until_served("tls", hash_of(first))
        assert (reported["status"], reported["upToDate"], reported["problems"]) == (200, True, [])
        assert (await http_client.ask(secure(port, "one"), "one")).answered_by == "tea"

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
        assert (await chaperone.ask("one")).answered_by == "tea"
    logged = "\n".join(str(record) for record in running.log)
    assert "PRIVATE KEY" not in logged
    assert pair("one").key.decode().splitlines()[1] not in logged


async def test_inconsistent_secret_keeps_the_last_good_certificates(gateway, chaperone):
    port = chaperone.tls_port
    good, next_one = tls(port, (pair("one"), ["one"])), tls(port, (pair("one", 1), ["one"]))
    gateway.write_secret(good)
    async with chaperone.running():
        await chaperone.until_served("tls", hash_of(good))
        name = next(iter(next_one.files))
        gateway.write_secret(Tls(next_one.ports, {}))
        reported = await chaperone.until_problem(f"{SECRET}: {name}, which tls.json names, is not there")
        assert (reported["status"], reported["tls"], reported["upToDate"]) == (200, hash_of(good), False)
        gateway.write_secret(Tls(next_one.ports, {name: b"something else"}))
        await chaperone.until_problem(f"{name} does not match the hash in its name")
        gateway.cluster.request("DELETE", RESOURCES["Secret"].path(gateway.namespace, SECRET))
        await chaperone.until_problem(f"Secret {gateway.namespace}/{SECRET} does not exist")
        assert await certificate_of(port, "one") == pair("one").der

        gateway.write_secret(next_one)
        reported = await chaperone.until_served("tls", hash_of(next_one))
        assert (await chaperone.until_served("problems", []))["upToDate"]
        assert await certificate_of(port, "one") == pair("one", 1).der


async def test_without_a_secret_plain_listeners_serve(gateway, chaperone):
    async with chaperone.running():
        await chaperone.until_answered_by("one", "tea")
        assert (await chaperone.until_served("ready", True))["tls"] is None
        desired = tls(chaperone.tls_port, (pair("one"), ["one"]))
        gateway.write_secret(desired)
        await chaperone.until_served("tls", hash_of(desired))
        assert (await http_client.ask(secure(chaperone.tls_port, "one"), "one")).answered_by == "tea"


async def test_restart_without_api_server_serves_certificates_from_disk(gateway, chaperone):
    desired = tls(chaperone.tls_port, (pair("one"), ["one"]))
    gateway.write_secret(desired)
    async with chaperone.running():
        await chaperone.until_served("tls", hash_of(desired))
    kubeconfig = Path(chaperone.environment["KUBECONFIG"])
    nowhere = kubeconfig.with_name("nowhere")
    nowhere.write_text(kubeconfig.read_text().replace(f":{gateway.cluster.port}", ":1"))
    chaperone.environment["KUBECONFIG"] = str(nowhere)
    async with chaperone.running():
        reported = await chaperone.until_served("tls", hash_of(desired))
        assert reported["status"] == 200
        assert (await http_client.ask(secure(chaperone.tls_port, "one"), "one")).answered_by == "tea"
