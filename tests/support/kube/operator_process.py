"""``vgw operator`` as in its pod: a process of its own, under its own ServiceAccount.

In:   a cluster.
Out:  operators, each for a GatewayClass of its own so that tests share a cluster, and the
      Gateways, routes and Services that they work on. Nothing but what deploy/ grants lets an
      operator read or write.
"""

import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import yaml

from cluster.apiserver.server import Cluster
from loopback import free_port
from support.kube.documents import path_of
from support.waiting import until

ROOT = Path(__file__).parents[3]
SYSTEM = "varnish-gateway-system"
ACCOUNT = "varnish-gateway-operator"
GRANTED = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")


def grant(cluster: Cluster, class_name: str = "varnish") -> str:
    """Make the operator's ServiceAccount with what deploy/ gives it; return its token."""
    if not cluster.exists(f"/api/v1/namespaces/{SYSTEM}"):
        cluster.create_namespace(SYSTEM)
    for file in ("01-operator.yaml", "02-chaperone-rbac.yaml"):
        text = (ROOT / "deploy" / file).read_text().replace(f"{ACCOUNT}-varnish", f"{ACCOUNT}-{class_name}")
        for document in yaml.safe_load_all(text):
            if document["kind"] in ("Role", "RoleBinding"):  # the Lease of each class has one of its own
                document["metadata"]["name"] += f"-{class_name}"
                document.get("roleRef", {})["name"] = document["metadata"]["name"]
            if document["kind"] in GRANTED:
                cluster.apply(path_of(document), document)
    return cluster.service_account_token(SYSTEM, ACCOUNT)


class OperatorProcess:
    """One operator. ``start`` returns when it has compared everything, unless another one leads."""

    def __init__(
        self,
        cluster: Cluster,
        directory: Path,
        *,
        class_name: str,
        name: str = "operator-0",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.cluster = cluster
        self.class_name = class_name
        self.name = name
        self.log = directory / f"{name}.log"
        self.metrics_port, self.health_port, self.invalidation_port = free_port(), free_port(), free_port()
        self._environment = {
            **os.environ,
            "KUBECONFIG": str(cluster.kubeconfig(grant(cluster, class_name))),
            "GATEWAY_CLASS_NAME": class_name,
            "GATEWAY_IMAGE": "example.com/gateway:1",
            "POD_NAMESPACE": SYSTEM,
            "POD_NAME": name,
            "METRICS_ADDR": f"127.0.0.1:{self.metrics_port}",
            "HEALTH_ADDR": f"127.0.0.1:{self.health_port}",
            "INVALIDATION_ADDR": f"127.0.0.1:{self.invalidation_port}",
            **(environment or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def launch(self) -> Self:
        """Start the process and return at once."""
        command = ["setpriv", "--pdeathsig", "KILL", sys.executable, "-m", "varnish_gateway", "operator"]
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(command, env=self._environment, stdout=output, stderr=output)
        return self

    def start(self) -> Self:
        self.launch()
        return self.wait_idle()

    def wait_idle(self, seconds: float = 30) -> Self:
        """Wait until it leads and has nothing left to do."""
        try:
            until(self._is_idle, f"{self.name} leads and is idle", seconds)
        except AssertionError as failure:
            self.kill()
            raise AssertionError(f"{failure}\n{self.log.read_text()[-4000:]}") from failure
        return self

    def at_rest(self) -> Self:
        """Wait until there is nothing to do for later either: for Gateways without ready pods."""
        # Parameters without a class are looked at again after a minute.
        until(lambda: self._is_idle("vgw_operator_jobs_later"), f"{self.name} rests", 90)
        return self

    def await_ready(self) -> Self:
        until(lambda: self._page(self.health_port, "/readyz") is not None, f"{self.name} is ready", 60)
        return self

    def readiness(self) -> str:
        """Return the text of /readyz, empty while it is not ready."""
        return self._page(self.health_port, "/readyz") or ""

    def stop(self) -> None:
        """Ask it to end; it must do so by itself."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            assert self._process.wait(20) == 0, self.log.read_text()[-4000:]

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def ended(self) -> int | None:
        """Return its exit status; None while it runs."""
        assert self._process is not None
        return self._process.poll()

    # -- its reports -----------------------------------------------------------------------

    def metrics(self) -> dict[str, float]:
        """Return its metrics by name with labels, as they are written."""
        page = self._page(self.metrics_port, "/metrics")
        assert page is not None, self.log.read_text()[-4000:]
        return {name: float(value) for name, value in re.findall(r"^(?!#)(\S+) (\S+)$", page, re.MULTILINE)}

    def last_words(self) -> str:
        """Return what helps to understand a failure."""
        counts = {name: value for name, value in self.metrics().items() if name.startswith("vgw_operator")}
        return f"{counts}\n{self.log.read_text()[-3000:]}"

    def writes(self) -> dict[str, float]:
        """Return how often it has written, by kind and verb."""
        return {
            "{kind} {verb}".format(**dict(re.findall(r'(\w+)="(\w+)"', name))): value
            for name, value in self.metrics().items()
            if name.startswith("vgw_operator_writes_total")
        }

    def _is_idle(self, *zero: str) -> bool:
        """Whether no job waits or runs and the named metrics are 0, all on one page: delayed jobs start anytime."""
        if self._process is not None and self._process.poll() is not None:
            raise AssertionError(f"{self.name} ended")
        if self._page(self.metrics_port, "/metrics") is None:
            return False
        metrics = self.metrics()
        is_idle = metrics["vgw_operator_working"] == 1 and metrics["vgw_operator_idle"] == 1
        return is_idle and not any(metrics[name] for name in zero)

    @staticmethod
    def _page(port: int, path: str) -> str | None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
                return str(answer.read().decode())
        except OSError:
            return None
