"""A real API server with its etcd, on loopback, for tests.

In:   build/bin (tools/build_binaries.py) and the CRDs: the Gateway API's experimental channel, ours.
Out:  a cluster with RBAC on and no nodes. Controllers (Deployments, garbage collection) run only
      after ``start_controllers``. Everything is under one directory; ``stop`` leaves the logs there.

``request`` and its like are for what a test does to the cluster; the code under test uses ``client()``.
"""

import contextlib
import functools
import http.client
import importlib.util
import json
import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import yaml

from cluster import openssl
from cluster.apiserver.processes import BIN, RunningProgram
from cluster.errors import Refused
from loopback import free_port
from varnish_gateway.kube.client import Client
from varnish_gateway.kube.connection import Connection, connection

ROOT = Path(__file__).parents[3]
ADMIN = "admin-token"
START_SECONDS = 90.0
GAP = 0.03
TOO_EARLY = b"storage is (re)initializing"
CONTROLLERS = (
    "deployment-controller",
    "disruption-controller",
    "endpointslice-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "replicaset-controller",
    "serviceaccount-controller",
)
Document = dict[str, Any]


class Cluster:
    def __init__(self, directory: Path, *, api_flags: Sequence[str] = ()) -> None:
        self.directory = directory
        self.port = free_port()
        self.server = f"https://127.0.0.1:{self.port}"
        self._api_flags = tuple(api_flags)
        self._etcd: RunningProgram | None = None
        self._api: RunningProgram | None = None
        self._controllers: RunningProgram | None = None
        self._seconds: list[RunningProgram] = []
        self._ssl: ssl.SSLContext | None = None

    # -- start and stop ---------------------------------------------------------------------

    def start(self, *, crds: bool = True) -> Self:
        self._write_secrets()
        with contextlib.ExitStack() as undo:
            undo.callback(self.stop)
            self._start_etcd()
            self.start_api()
            if crds:
                self.install_crds()
            undo.pop_all()
        return self

    def stop(self) -> None:
        """End everything by force, as there is nothing to keep but the logs."""
        for program in (self._controllers, *self._seconds, self._api, self._etcd):
            if program is not None:
                program.kill()
        self._controllers = self._api = self._etcd = None
        self._seconds.clear()
        shutil.rmtree(self.directory / "etcd", ignore_errors=True)

    @property
    def api(self) -> RunningProgram:
        assert self._api is not None, "the API server is not running"
        return self._api

    def start_api(self) -> None:
        """Start the API server, again at the same port, and wait until it is ready."""
        self._api = self._api_server(self.port, "api.log")
        self._await_ready(self._api, self.port)

    def kill_api(self) -> None:
        """End the API server as a crash does."""
        self.api.kill()
        self._api = None

    def start_second_api(self) -> int:
        """Start another API server on the same etcd and return its port: changes while the first is down."""
        port = free_port()
        program = self._api_server(port, "second-api.log")
        self._seconds.append(program)
        self._await_ready(program, port)
        return port

    def start_controllers(self) -> None:
        """Start kube-controller-manager once; it stays until the end."""
        if self._controllers is None:
            self._controllers = RunningProgram(
                "kube-controller-manager",
                f"--kubeconfig={self.kubeconfig(ADMIN)}",
                "--leader-elect=false",
                "--secure-port=0",
                f"--controllers={','.join(CONTROLLERS)}",
                f"--service-account-private-key-file={self.directory}/key.pem",
                "--concurrent-gc-syncs=2",
                log=self.directory / "controllers.log",
            )

    def compact(self) -> None:
        """Make etcd forget every revision but the newest."""
        newest = int(self._etcd_call("/v3/kv/range", {"key": "AA=="})["header"]["revision"])
        self._etcd_call("/v3/kv/compaction", {"revision": newest, "physical": True})

    # -- ways in ----------------------------------------------------------------------------

    def kubeconfig(self, token: str = ADMIN) -> Path:
        """Return a file for kubectl and for ``connection``."""
        path = self.directory / f"kubeconfig-{abs(hash(token)):x}.json"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "test",
                    "cluster": {"server": self.server, "certificate-authority": str(self.directory / "cert.pem")},
                }
            ],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "current-context": "test",
        }
        path.write_text(json.dumps(content))
        return path

    def connection(self, token: str = ADMIN) -> Connection:
        return connection({}, kubeconfig=self.kubeconfig(token))

    def client(self, token: str = ADMIN) -> Client:
        """Return a client of ours; enter it with ``async with``."""
        return Client(self.connection(token), user_agent="vgw-test")

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """Run kubectl and return what it prints."""
        command = [str(BIN / "kubectl"), f"--kubeconfig={self.kubeconfig()}", *arguments]
        home = {**os.environ, "HOME": str(self.directory)}
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, env=home)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def service_account_token(self, namespace: str, name: str) -> str:
        """Return a token of a ServiceAccount, as a pod gets it."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 7200}}
        return str(self.request("POST", path, body)["status"]["token"])

    def request(  # noqa: PLR0913 - a request has this many parts
        self,
        method: str,
        path: str,
        body: Document | None = None,
        *,
        content_type: str = "application/json",
        token: str = ADMIN,
        port: int | None = None,
    ) -> Document:
        """Ask the API server and return its answer; raise Refused if that is an error.

        One that has just started asks to come back until it has read what it stores.
        """
        headers = {"Authorization": f"Bearer {token}", "Content-Type": content_type}
        content = None if body is None else json.dumps(body)
        deadline = time.monotonic() + START_SECONDS
        while True:
            status, answer = self._exchange(port or self.port, method, path, content, headers)
            if TOO_EARLY not in answer or time.monotonic() > deadline:
                break
            time.sleep(GAP)
        if status >= 300:
            raise Refused(f"{method} {path}", status, answer.decode())
        return dict(json.loads(answer)) if answer.startswith(b"{") else {"text": answer.decode()}

    def _exchange(self, port: int, method: str, path: str, content: str | None, headers: Document) -> tuple[int, bytes]:
        link = http.client.HTTPSConnection("127.0.0.1", port, context=self.trust(), timeout=30)
        with contextlib.closing(link):
            link.request(method, path, content, headers)
            response = link.getresponse()
            return response.status, response.read()

    def apply(self, path: str, document: Document, *, manager: str = "test", force: bool = True) -> Document:
        """Server-side apply at the path of an object (``/api/v1/namespaces/x/configmaps/y``)."""
        query = f"?fieldManager={manager}&force={str(force).lower()}"
        return self.request("PATCH", path + query, document, content_type="application/apply-patch+yaml")

    def merge(self, path: str, document: Document) -> Document:
        """JSON merge patch at the path of an object."""
        return self.request("PATCH", path, document, content_type="application/merge-patch+json")

    def exists(self, path: str) -> bool:
        status = self._status(path)
        assert status in {200, 404}, f"GET {path}: {status}"
        return status == 200

    def _status(self, path: str) -> int:
        try:
            self.request("GET", path)
        except Refused as refused:
            return refused.status
        return 200

    # -- namespaces -------------------------------------------------------------------------

    def create_namespace(self, name: str, labels: Mapping[str, str] | None = None) -> None:
        metadata = {"name": name, "labels": dict(labels or {})}
        self.request("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})

    def clear_namespace(self, name: str) -> None:
        """Delete what tests make in a namespace: without controllers its deletion alone deletes nothing."""
        for path in _CLEARED:
            group, _, plural = path.rpartition("/")
            self.request("DELETE", f"/{group}/namespaces/{name}/{plural}")
        self.request("DELETE", f"/api/v1/namespaces/{name}")

    # -- inside -----------------------------------------------------------------------------

    def _write_secrets(self) -> None:
        """Write a key, a certificate for 127.0.0.1 and the administrator's token."""
        self.directory.mkdir(parents=True, exist_ok=True)
        openssl.create_self_signed(self.directory, "-addext", "subjectAltName=IP:127.0.0.1")
        (self.directory / "tokens.csv").write_text(f'{ADMIN},admin,admin-uid,"system:masters"\n')

    def _start_etcd(self) -> None:
        peer = f"http://127.0.0.1:{free_port()}"
        client = f"unix://{self.directory}/etcd.sock"
        self._etcd = RunningProgram(
            "etcd",
            f"--data-dir={self.directory}/etcd",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={peer}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            log=self.directory / "etcd.log",
        )

    def _api_server(self, port: int, log: str) -> RunningProgram:
        here = self.directory
        return RunningProgram(
            "kube-apiserver",
            f"--etcd-servers=unix://{here}/etcd.sock",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={port}",
            f"--tls-cert-file={here}/cert.pem",
            f"--tls-private-key-file={here}/key.pem",
            f"--cert-dir={here}/certs",
            f"--token-auth-file={here}/tokens.csv",
            f"--client-ca-file={here}/cert.pem",
            "--authorization-mode=RBAC",
            "--anonymous-auth=false",
            "--service-account-issuer=https://127.0.0.1",
            f"--service-account-signing-key-file={here}/key.pem",
            f"--service-account-key-file={here}/key.pem",
            "--service-cluster-ip-range=10.0.0.0/16",
            "--disable-admission-plugins=ServiceAccount",  # pods of tests need no ServiceAccount
            "--endpoint-reconciler-type=none",
            *self._api_flags,
            log=here / log,
        )

    def _await_ready(self, program: RunningProgram, port: int) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            assert self._etcd is not None
            self._etcd.check()
            program.check()
            with contextlib.suppress(OSError, http.client.HTTPException, Refused):
                self.request("GET", "/readyz", port=port)
                return
            assert time.monotonic() < deadline, f"{program.name} is not ready:\n{program.last_words()}"
            time.sleep(GAP)

    def trust(self) -> ssl.SSLContext:
        """Return a TLS context that trusts this API server."""
        if self._ssl is None:
            self._ssl = ssl.create_default_context(cafile=self.directory / "cert.pem")
        return self._ssl

    def install_crds(self, paths: Iterable[Path] | None = None) -> None:
        """Install all CRDs, or those of the given files, and wait until they are served."""
        crds = [yaml.load(path.read_text(), yaml.CSafeLoader) for path in paths or crd_files()]
        collection = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(functools.partial(self.request, "POST", collection), crds))
        for crd in crds:
            for path in _paths(crd):
                self.await_path(f"{path}?limit=1")

    def await_path(self, path: str) -> None:
        """Wait until the API server serves a path; that of a CRD comes later than readiness."""
        deadline = time.monotonic() + START_SECONDS
        while self._status(path) != 200:
            assert time.monotonic() < deadline, f"{path} is not served"
            time.sleep(GAP)

    def _etcd_call(self, path: str, body: Document) -> Document:
        link = http.client.HTTPConnection("localhost", timeout=30)
        link.sock = socket.socket(socket.AF_UNIX)
        link.sock.connect(str(self.directory / "etcd.sock"))
        with contextlib.closing(link):
            link.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            response = link.getresponse()
            answer = response.read()
        assert response.status == 200, answer
        return dict(json.loads(answer))


_CLEARED = (
    "apis/gateway.networking.k8s.io/v1/httproutes",
    "apis/gateway.networking.k8s.io/v1/listenersets",
    "apis/gateway.networking.k8s.io/v1/gateways",
    "apis/gateway.networking.k8s.io/v1/referencegrants",
    "apis/gateway.networking.k8s.io/v1/backendtlspolicies",
    "apis/gateway.varnish-software.com/v1alpha1/varnishcacheinvalidations",
    "apis/gateway.varnish-software.com/v1alpha1/varnishcachepolicies",
    "apis/apps/v1/deployments",
    "apis/autoscaling/v2/horizontalpodautoscalers",
    "apis/policy/v1/poddisruptionbudgets",
    "apis/rbac.authorization.k8s.io/v1/rolebindings",
    "apis/rbac.authorization.k8s.io/v1/roles",
    "apis/discovery.k8s.io/v1/endpointslices",
    "api/v1/services",
    "api/v1/pods",
    "api/v1/configmaps",
    "api/v1/secrets",
    "api/v1/serviceaccounts",
)


def _paths(crd: Document) -> Iterator[str]:
    """Where the objects of a CRD are listed, by version."""
    spec = crd["spec"]
    for version in spec["versions"]:
        if version["served"]:
            yield f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}"


def crd_files(channel: str = "experimental") -> Iterator[Path]:
    """Yield the CRDs of the Gateway API that we read, of one channel, and our own."""
    location = importlib.util.spec_from_file_location("fetch_schemas", ROOT / "tools" / "fetch_schemas.py")
    fetch_schemas = importlib.util.module_from_spec(location)
    location.loader.exec_module(fetch_schemas)
    directory = fetch_schemas.gateway_api(channel)
    for plural in fetch_schemas.PLURALS:
        yield directory / f"gateway.networking.k8s.io_{plural}.yaml"
    yield from sorted(fetch_schemas.OWN.glob("*.yaml"))
