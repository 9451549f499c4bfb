"""The client against a real API server."""

import asyncio
import os
from pathlib import Path

import msgspec
import pytest

from cluster.apiserver.server import Cluster
from cluster.openssl import create_key, openssl
from support.directories import replace
from support.waiting import until_async
from varnish_gateway import errors
from varnish_gateway.kube.client import Client
from varnish_gateway.kube.connection import Connection, connection
from varnish_gateway.kube.limits import Limits
from varnish_gateway.kube.resources import RESOURCES

CONFIG_MAP = RESOURCES["ConfigMap"]
GATEWAY = RESOURCES["Gateway"]


def config_map(namespace: str, **data: str) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "cm", "namespace": namespace},
        "data": data,
    }


def gateway(namespace: str, **spec) -> dict:
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "Gateway",
        "metadata": {"name": "gw", "namespace": namespace},
        "spec": {"gatewayClassName": "c", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}], **spec},
    }


async def read(client: Client, namespace: str) -> dict:
    return msgspec.json.decode(await client.get(CONFIG_MAP, "cm", namespace=namespace))


# -- apply ------------------------------------------------------------------------------------


async def test_two_managers_own_a_key_each(client: Client, namespace: str) -> None:
    await client.apply(config_map(namespace, one="1"), manager="first")
    await client.apply(config_map(namespace, two="2"), manager="second")
    assert (await read(client, namespace))["data"] == {"one": "1", "two": "2"}
    await client.apply(config_map(namespace), manager="first")
    assert (await read(client, namespace))["data"] == {"two": "2"}


async def test_a_conflict_names_managers_and_fields_and_changes_nothing(client: Client, namespace: str) -> None:
    await client.apply(config_map(namespace, one="1"), manager="first")
    with pytest.raises(errors.FieldConflict) as caught:
        await client.apply(config_map(namespace, one="3", two="2"), manager="second")
    assert caught.value.managers == ("first",)
    assert caught.value.fields == (".data.one",)
    assert (await read(client, namespace))["data"] == {"one": "1"}


async def test_forced_apply_takes_over_a_field(client: Client, namespace: str) -> None:
    await client.apply(config_map(namespace, one="1"), manager="first")
    await client.apply(config_map(namespace, one="3"), manager="second", force=True)
    assert (await read(client, namespace))["data"] == {"one": "3"}


async def test_a_dry_run_answers_and_writes_nothing(client: Client, cluster: Cluster, namespace: str) -> None:
    answer = await client.apply(config_map(namespace, one="1"), manager="first", dry_run=True)
    assert msgspec.json.decode(answer)["data"] == {"one": "1"}
    assert not cluster.exists(CONFIG_MAP.path(namespace, "cm"))


async def test_a_status_is_applied_without_its_spec(client: Client, namespace: str) -> None:
    await client.apply(gateway(namespace), manager="user")
    status = {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "Gateway",
        "metadata": {"name": "gw", "namespace": namespace},
        "status": {"addresses": [{"type": "IPAddress", "value": "192.0.2.1"}]},
    }
    await client.apply(status, manager="controller", subresource="status")
    found = msgspec.json.decode(await client.get(GATEWAY, "gw", namespace=namespace))
    assert found["status"]["addresses"] == status["status"]["addresses"]
    assert found["spec"]["gatewayClassName"] == "c"


async def test_invalid_object_error_names_the_field(client: Client, namespace: str) -> None:
    with pytest.raises(errors.Invalid, match=r"spec\.listeners") as caught:
        await client.apply(gateway(namespace, listeners=[]), manager="user")
    assert caught.value.status == 422


# -- other writes -----------------------------------------------------------------------------


async def test_an_old_resource_version_is_a_conflict(client: Client, namespace: str) -> None:
    await client.apply(config_map(namespace, one="1"), manager="first")
    version = (await read(client, namespace))["metadata"]["resourceVersion"]
    patch = {"metadata": {"resourceVersion": version}, "data": {"one": "2"}}
    await client.patch(CONFIG_MAP, "cm", patch, namespace=namespace, manager="first")
    with pytest.raises(errors.Conflict):
        await client.patch(CONFIG_MAP, "cm", patch, namespace=namespace, manager="first")


async def test_creating_an_existing_object_is_a_conflict(client: Client, namespace: str) -> None:
    await client.create(config_map(namespace, one="1"), manager="first")
    with pytest.raises(errors.Conflict) as caught:
        await client.create(config_map(namespace, one="2"), manager="first")
    assert caught.value.reason == "AlreadyExists"


async def test_deleting_a_missing_object_succeeds(client: Client, cluster: Cluster, namespace: str) -> None:
    await client.apply(config_map(namespace), manager="first")
    await client.delete(CONFIG_MAP, "cm", namespace=namespace)
    await client.delete(CONFIG_MAP, "cm", namespace=namespace)
    assert not cluster.exists(CONFIG_MAP.path(namespace, "cm"))


async def test_deletion_by_uid_keeps_a_recreated_object(client: Client, cluster: Cluster, namespace: str) -> None:
    await client.apply(config_map(namespace), manager="first")
    with pytest.raises(errors.Conflict):
        await client.delete(CONFIG_MAP, "cm", namespace=namespace, uid="another")
    uid = (await read(client, namespace))["metadata"]["uid"]
    await client.delete(CONFIG_MAP, "cm", namespace=namespace, uid=uid)
    assert not cluster.exists(CONFIG_MAP.path(namespace, "cm"))


async def test_writes_are_blocked_without_permission_to_write(cluster: Cluster, namespace: str) -> None:
    allowed = True
    async with Client(cluster.connection(), user_agent="test", may_write=lambda: allowed) as client:
        await client.apply(config_map(namespace, one="1"), manager="first")
        allowed = False
        with pytest.raises(errors.NotLeading):
            await client.apply(config_map(namespace, one="2"), manager="first")
        with pytest.raises(errors.NotLeading):
            await client.delete(CONFIG_MAP, "cm", namespace=namespace)
        assert (await read(client, namespace))["data"] == {"one": "1"}


# -- rights -----------------------------------------------------------------------------------


def service_account(cluster: Cluster, namespace: str, name: str) -> str:
    cluster.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})
    return cluster.service_account_token(namespace, name)


async def test_a_service_account_without_rights_is_forbidden(cluster: Cluster, namespace: str) -> None:
    async with cluster.client(service_account(cluster, namespace, "nobody")) as client:
        with pytest.raises(errors.Forbidden, match="nobody"):
            await client.get(CONFIG_MAP, "cm", namespace=namespace)


async def test_a_new_token_in_the_file_is_used(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    replace(file, "admin-token")
    async with Client(file_connection(cluster, file), user_agent="test") as client:
        await client.apply(config_map(namespace), manager="first")
        replace(file, service_account(cluster, namespace, "nobody"))
        with pytest.raises(errors.Forbidden, match="nobody"):
            await client.get(CONFIG_MAP, "cm", namespace=namespace)


async def test_rejected_token_is_reread(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    """A file system may have coarse times, so that a new token looks like the old one."""
    file = tmp_path / "token"
    replace(file, "not a token")
    stamp = file.stat().st_mtime_ns
    async with Client(file_connection(cluster, file), user_agent="test") as client:
        with pytest.raises(errors.Forbidden):
            await client.apply(config_map(namespace), manager="first")
        await asyncio.to_thread(replace, file, "admin-token\n")
        os.utime(file, ns=(stamp, stamp))
        await client.apply(config_map(namespace), manager="first")


async def test_client_certificate_authenticates(cluster: Cluster, tmp_path: Path) -> None:
    config = certified(cluster, tmp_path)
    async with Client(connection({}, kubeconfig=config), user_agent="test") as client:
        await client.read("/api/v1/namespaces/default")


def certified(cluster: Cluster, directory: Path) -> Path:
    """Return a kubeconfig with a client certificate that the cluster trusts."""
    ca = cluster.directory
    create_key(directory, "key.pem")
    for command in (
        "req -new -key key.pem -out request.pem -subj /O=system:masters/CN=by-certificate",
        f"x509 -req -in request.pem -CA {ca}/cert.pem -CAkey {ca}/key.pem -set_serial 1 -out cert.pem",
    ):
        openssl(directory, *command.split())
    config = msgspec.json.decode(cluster.kubeconfig().read_bytes())
    config["users"][0]["user"] = {"client-certificate": "cert.pem", "client-key": "key.pem"}
    (directory / "config").write_bytes(msgspec.json.encode(config))
    return directory / "config"


def file_connection(cluster: Cluster, file: Path) -> Connection:
    plain = cluster.connection()
    return Connection(server=plain.server, ssl=plain.ssl, token_file=file)


# -- limits and repetition --------------------------------------------------------------------


async def test_no_more_than_the_limit_is_in_flight(own_cluster: Cluster) -> None:
    async with Client(own_cluster.connection(), user_agent="test", limits=Limits(in_flight=2)) as client:
        await client.read("/version")
        own_cluster.api.pause()
        requests = [asyncio.create_task(client.read("/version")) for _ in range(6)]
        free = client._turnstile._free
        await until_async(lambda: len(free._waiters or ()) == 4, "four of six don't wait")
        assert free.locked()
        own_cluster.api.resume()
        await asyncio.gather(*requests)
        assert client.metrics.requests["get", "", 200] == 7


async def test_the_rate_limit_makes_requests_wait(cluster: Cluster) -> None:
    async with Client(cluster.connection(), user_agent="test", limits=Limits(per_second=5, burst=1)) as client:
        await asyncio.gather(*(client.read("/version") for _ in range(3)))
        assert client.metrics.throttled_seconds > 0


async def test_repeatable_requests_survive_an_api_server_restart(own_cluster: Cluster) -> None:
    async with own_cluster.client() as client:
        await client.apply(config_map("default", one="1"), manager="first")
        own_cluster.kill_api()
        own_cluster.start_api()
        await client.apply(config_map("default", one="2"), manager="first")
        assert (await read(client, "default"))["data"] == {"one": "2"}


async def test_unanswered_request_raises_unreachable(own_cluster: Cluster) -> None:
    limits = Limits(attempts=2, request_seconds=0.3)
    async with Client(own_cluster.connection(), user_agent="test", limits=limits) as client:
        own_cluster.api.pause()
        with pytest.raises(errors.Unreachable):
            await client.read("/version")
        own_cluster.api.resume()
        await client.read("/version")
        own_cluster.kill_api()
        with pytest.raises(errors.Unreachable):
            await client.read("/version")
        assert client.metrics.retries[""] >= 2
