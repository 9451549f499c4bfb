"""Pods of a Gateway: the object by hand, for no kubelet runs here, and its chaperone as a real process.

In:   what the operator made for the Gateway.
Out:  a pod that is ready at a loopback address of its own, and ``vgw chaperone`` there, with the
      environment of the Deployment and the Gateway's ServiceAccount. Only places on this machine differ.
"""

import contextlib
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from support.directories import open_directory
from support.kube.operator_harness import OperatorHarness
from varnish_gateway.emit.manifests.containers import HEALTH_PORT
from varnish_gateway.emit.names import workload

_turn = itertools.count(1)


class GatewayPod:
    """``process`` is the chaperone."""

    def __init__(self, harness: OperatorHarness, gateway: str = "gw") -> None:
        self.harness = harness
        self.name = f"{gateway}-pod-{next(_turn)}"
        number = os.getpid()
        self.address = f"127.{1 + (number >> 8) % 254}.{number & 255}.{int(self.name.rpartition('-')[2]) % 250 + 2}"
        self._template = harness.get("Deployment", workload(gateway))["spec"]["template"]
        self.process: subprocess.Popen[bytes]

    @contextlib.contextmanager
    def running(self) -> Iterator["GatewayPod"]:
        """Have the chaperone and its pod until the end."""
        with open_directory() as directory, (directory / "log").open("wb") as log:
            command = ["setpriv", "--pdeathsig", "KILL", sys.executable, "-m", "varnish_gateway", "chaperone"]
            self.process = subprocess.Popen(command, env=self._environment(directory), stdout=log, stderr=log)
            try:
                self.create()
                yield self
            finally:
                self.harness.delete("Pod", self.name)
                self.process.terminate()
                assert self.process.wait(30) == 0, (directory / "log").read_text()[-3000:]

    def _environment(self, directory: Path) -> dict[str, str]:
        container = self._template["spec"]["containers"][0]
        environment = {one["name"]: one["value"] for one in container["env"] if "value" in one}
        token = self.harness.cluster.service_account_token(
            self.harness.namespace, self._template["spec"]["serviceAccountName"]
        )
        return {
            **os.environ,
            **environment,
            "KUBECONFIG": str(self.harness.cluster.kubeconfig(token)),
            "HEALTH_ADDR": f"{self.address}:{HEALTH_PORT}",
            "POD_NAME": self.name,
            "VARNISH_ADMIN_PORT": "0",
            "VARNISH_DIR": str(directory / "varnish"),
            "VARNISH_LISTEN": self._sockets(environment["VARNISH_LISTEN"]),
            "VARNISH_STORAGE": "malloc,16m",
            "WORK_DIR": str(directory / "work"),
            "DRAIN_SECONDS": "0",
            "DRAIN_DELAY_SECONDS": "0",
        }

    def _sockets(self, listen: str) -> str:
        """Return sockets at any port; those with TLS have theirs at the pod's own address."""
        plain = re.sub(r"=[^,;]*", "=127.0.0.1:0", listen)
        return re.sub(r"(https-(\d+))=[^,;]*", rf"\1={self.address}:\2", plain)

    def create(self) -> None:
        """Create the Pod in the API server and report it ready."""
        document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**self._template["metadata"], "name": self.name},
            "spec": {"containers": [{"name": "gateway", "image": "example.com/gateway"}]},
        }
        self.harness.cluster.request("POST", self.harness.path("Pod"), document)
        self.say(ready=True)

    def say(self, *, ready: bool) -> None:
        """Write the status that a kubelet writes."""
        status = {
            "phase": "Running",
            "podIP": self.address,
            "podIPs": [{"ip": self.address}],
            "conditions": [{"type": "Ready", "status": str(ready)}],
        }
        self.harness.change("Pod", self.name, {"status": status}, subresource="status", who="kubelet")
