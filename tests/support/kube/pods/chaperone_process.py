"""``vgw chaperone`` as in a pod: a process of its own, under its own ServiceAccount.

In:   a cluster, and a namespace for the Gateway.
Out:  what the operator would write for a Gateway (RBAC, ConfigMaps), EndpointSlices, and the
      chaperone that follows them. It may read what the operator lets it read, and nothing else.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from base64 import b64encode
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from cluster.apiserver.server import Cluster
from loopback import free_port
from support.http import client as http_client
from support.vgw_process import VgwProcess
from support.waiting import until, until_async
from varnish_gateway.dataplane.tls.material import TLS_JSON
from varnish_gateway.emit.manifests.access import access
from varnish_gateway.emit.manifests.access import endpoints_binding as access_to_endpoints
from varnish_gateway.emit.manifests.shape import GatewayShape, Installation
from varnish_gateway.emit.names import GENERATION, INDEX, MAIN_VCL, ROUTING, endpoints_binding, secret, workload
from varnish_gateway.emit.routing import content_hash, shard_of
from varnish_gateway.emit.tls import encode_tls
from varnish_gateway.emit.vcl import main_vcl
from varnish_gateway.ir import Tls, wire
from varnish_gateway.kube.resources import RESOURCES, Resource

NAME = "gw"
ACCOUNT, SECRET = workload(NAME), secret(NAME)
CLUSTER_ROLE = "vgw-test-endpoints"
ROOT = Path(__file__).parents[4]
SECONDS = 60.0
"""An API server that comes back on a busy machine takes its time, and so do our attempts to reach it."""


class ProvisionedGateway:
    """A Gateway as its chaperone sees it."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.path = f"/api/v1/namespaces/{namespace}/configmaps/{NAME}-vcl"

    # -- what it may read -------------------------------------------------------------------

    def grant(self, *, shards: int = 1) -> str:
        """Make the ServiceAccount and what it may read, as the operator and deploy/ do; return its token.

        What it may read it may read from then on: the API server learns of a grant a moment later.
        """
        for manifest in access(self._shape(shards)):
            self._apply(manifest)
        document = yaml.safe_load((ROOT / "deploy" / "02-chaperone-rbac.yaml").read_text())
        document["metadata"]["name"] = CLUSTER_ROLE
        self._apply(document)
        self.bind_endpoints(self.namespace)
        self._until_allowed(verb="get", resource="configmaps", namespace=self.namespace, name=f"{NAME}-vcl")
        return self.cluster.service_account_token(self.namespace, ACCOUNT)

    def bind_endpoints(self, *namespaces: str) -> None:
        """Let the chaperone read EndpointSlices of these namespaces, too."""
        installation = Installation(image="none", chaperone_role=CLUSTER_ROLE)
        for namespace in namespaces:
            self._apply(access_to_endpoints(self._shape(), namespace, installation))
        for namespace in namespaces:
            for verb in ("list", "watch"):
                self._until_allowed(verb=verb, group="discovery.k8s.io", resource="endpointslices", namespace=namespace)

    def _until_allowed(self, **attributes: str) -> None:
        """Wait until the API server knows that the chaperone may do this."""
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": f"system:serviceaccount:{self.namespace}:{ACCOUNT}", "resourceAttributes": attributes},
        }
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        until(lambda: self.cluster.request("POST", path, review)["status"]["allowed"], f"{attributes} is allowed")

    def _shape(self, shards: int = 1) -> GatewayShape:
        return GatewayShape(namespace=self.namespace, name=NAME, uid="none", class_name="none", shards=shards)

    def unbind_endpoints(self, namespace: str) -> None:
        binding = RESOURCES["RoleBinding"].path(namespace, endpoints_binding(self.namespace, NAME))
        self.cluster.request("DELETE", binding)

    def _apply(self, document: dict[str, Any]) -> None:
        cluster_role = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
        resource = RESOURCES.get(document["kind"], cluster_role)
        metadata = document["metadata"]
        metadata.pop("ownerReferences", None)  # there is no Gateway, so all would be collected
        self.cluster.apply(resource.path(metadata.get("namespace", ""), metadata["name"]), document)

    # -- what it reads ----------------------------------------------------------------------

    def write(self, *services: str, vcl: str | None = None, generation: int = 1, shards: int = 1) -> None:
        """Write what routes these Services ("namespace/name"), one host each, as the operator does."""
        texts = routing(services, shards)
        for number in range(1, shards):
            self.write_shard(number, texts[number])
        data = {MAIN_VCL: vcl or main_vcl(), ROUTING: texts[0]}
        if shards > 1:
            data[INDEX] = index(texts)
        self.write_data(data, generation)

    def write_data(self, data: Mapping[str, str], generation: int = 1) -> None:
        metadata = {"name": f"{NAME}-vcl", "annotations": {GENERATION: str(generation)}}
        self.cluster.apply(self.path, _config_map(metadata, data))

    def write_shard(self, number: int, text: str) -> None:
        self.cluster.apply(f"{self.path}-{number}", _config_map({"name": f"{NAME}-vcl-{number}"}, {ROUTING: text}))

    def write_secret(self, tls: Tls | None) -> None:
        """Write certificates as the operator does; without TLS the Secret is empty."""
        contents = {} if tls is None else {TLS_JSON: encode_tls(tls), **tls.files}
        data = {name: b64encode(content).decode() for name, content in contents.items()}
        document = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}, "data": data}
        self.cluster.apply(RESOURCES["Secret"].path(self.namespace, SECRET), document)

    def write_endpoints(self, service: str, endpoint: wire.Endpoint, *, api_port: int | None = None) -> None:
        """Write the EndpointSlice of a Service ("namespace/name"); ``api_port`` selects another API server."""
        _, name = service.split("/")
        document = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4",
            "ports": [{"name": "", "port": endpoint.port}],
            "endpoints": [{"addresses": [endpoint.address], "conditions": {"ready": True}}],
        }
        self.cluster.request(
            "PATCH",
            f"{_slice_path(service)}?fieldManager=test&force=true",
            document,
            content_type="application/apply-patch+yaml",
            port=api_port,
        )

    def remove_endpoints(self, service: str, *, api_port: int | None = None) -> None:
        self.cluster.request("DELETE", _slice_path(service), port=api_port)


class ChaperoneProcess:
    """The process, its ports and its answers."""

    def __init__(self, gateway: ProvisionedGateway, token: str, directory: Path, **environment: str) -> None:
        self.port, self.tls_port, self.health = free_port(), free_port(), free_port()
        self.program: tuple[str, ...] = ("-m", "varnish_gateway")
        self.environment = {
            "KUBECONFIG": str(gateway.cluster.kubeconfig(token)),
            "NAMESPACE": gateway.namespace,
            "CONFIGMAP_NAME": f"{NAME}-vcl",
            "SECRET_NAME": SECRET,
            "VARNISH_ADMIN_PORT": "0",
            "VARNISH_LISTEN": f"ghost-reload=127.0.0.1:0,http;http-1=127.0.0.1:{self.port},http",
            "VARNISH_STORAGE": "malloc,16m",
            "WORK_DIR": str(directory / "work"),
            "HEALTH_ADDR": f"127.0.0.1:{self.health}",
            "DRAIN_SECONDS": "0.5",
            "DRAIN_DELAY_SECONDS": "0",
            **environment,
        }

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[VgwProcess]:
        """Run it; it is stopped, gently, at the end."""
        process = await asyncio.create_subprocess_exec(
            *("setpriv", "--pdeathsig", "KILL"),  # it does not outlive the tests, however they end
            *(sys.executable, *self.program, "chaperone", "--log-format", "json"),
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **self.environment},
            limit=1 << 20,
        )
        gateway = VgwProcess(process)
        try:
            yield gateway
        finally:
            await gateway.stop(signal.SIGTERM)

    def wait_for_lists(self, seconds: float) -> None:
        """Let routing wait this long for the first list of a namespace, in place of SETTLE_SECONDS."""
        words = (
            "import runpy",
            "from varnish_gateway.chaperone.feeds import slices",
            f"slices.SETTLE_SECONDS = {seconds}",
            "runpy.run_module('varnish_gateway', run_name='__main__')",
        )
        self.program = ("-c", "; ".join(words))

    async def ask(self, host: str) -> http_client.Answer:
        return await http_client.ask(self.port, host)

    async def until_answered_by(self, host: str, answered_by: str | int) -> None:
        """Wait until a host is answered by this origin, or with this status."""
        last: list[str | int] = []

        async def is_answered() -> bool:
            last[:] = [(await self.ask(host)).answered_by]
            return last == [answered_by]

        try:
            await until_async(is_answered, f"{host} is answered by {answered_by}", SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}, but by {last}; {await self.served()}") from error

    async def served(self) -> dict[str, Any]:
        """Return the answer of /ready, with its status."""
        answer = await http_client.ask(self.health, "localhost", "/ready")
        return {"status": answer.status, **(answer.json if answer.body else {})}

    async def until_served(self, what: str, expected: Any) -> dict[str, Any]:
        """Wait until /ready reports this; ``expected`` is a value or a predicate."""
        reported: dict[str, Any] = {}

        async def is_reported() -> bool:
            reported.clear()
            reported.update(await self.served())
            return bool(expected(reported.get(what)) if callable(expected) else reported.get(what) == expected)

        try:
            await until_async(is_reported, f"/ready has the {what} that is expected", SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}: {reported}") from error
        return reported

    async def until_problem(self, text: str, what: str = "problems") -> dict[str, Any]:
        """Wait until /ready names a problem."""
        return await self.until_served(what, lambda problems: any(text in each for each in problems or ()))

    async def metrics(self) -> str:
        return (await http_client.ask(self.health, "localhost", "/metrics")).body.decode()


@contextlib.contextmanager
def pod_address() -> Iterator[str]:
    """Give the loopback interface an address that an EndpointSlice may hold: the API server refuses 127.0.0.0/8."""
    number = os.getpid()
    address = f"198.18.{number >> 8 & 255}.{number & 255}"
    subprocess.run(["ip", "address", "add", f"{address}/32", "dev", "lo"], check=True)
    try:
        yield address
    finally:
        subprocess.run(["ip", "address", "del", f"{address}/32", "dev", "lo"], check=True)


def routing(services: Iterable[str], shards: int = 1) -> list[str]:
    """Return the shards of routes to these Services; the host is the Service's name."""
    routes = [_route(*service.split("/")) for service in services]
    listeners = (wire.Listener(name="http", socket="*"),)
    return [
        msgspec.json.encode(
            wire.Routing(
                version=2,
                shard=number,
                shards=shards,
                listeners=listeners if number == 0 else (),
                routes=tuple(route for route in routes if shard_of(route.namespace, route.name, shards) == number),
            )
        ).decode()
        for number in range(shards)
    ]


def index(texts: list[str]) -> str:
    hashes = ("", *(content_hash(text.encode()) for text in texts[1:]))
    return msgspec.json.encode(wire.Index(version=2, shards=hashes)).decode()


def _route(namespace: str, name: str) -> wire.Route:
    return wire.Route(
        namespace=namespace,
        name=name,
        attachments=(wire.Attachment(listener="http", hostnames=(name,)),),
        rules=(wire.Rule(backends=(wire.Backend(service=f"{namespace}/{name}", port=80),)),),
    )


def _config_map(metadata: dict[str, Any], data: Mapping[str, str]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}


def _slice_path(service: str) -> str:
    namespace, name = service.split("/")
    return f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices/{name}"
