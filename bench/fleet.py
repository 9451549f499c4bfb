"""A directory with one file per route, and ``vgw run`` that serves it."""

import contextlib
import http.client
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import yaml
from lab import free_port

GATEWAY = """\
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: bench}}
spec:
  gatewayClassName: varnish
  listeners:
    - {{name: http, protocol: HTTP, port: {port}}}
"""
SERVICE = """\
apiVersion: v1
kind: Service
metadata: {{name: {name}}}
spec:
  ports: [{{name: http, port: 80}}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: {name}-1
  labels: {{kubernetes.io/service-name: {name}}}
addressType: IPv4
ports: [{{name: http, port: {port}}}]
endpoints: [{{addresses: [127.0.0.1]}}]
"""
ROUTE = """\
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  name: route-{number}
spec:
  parentRefs:
    - name: bench
  hostnames:
    - h{number}.example.com
  rules:
    - matches:
        - path:
            type: PathPrefix
            value: /
      backendRefs:
        - name: {service}
          port: 80
"""


def documents(routes: int) -> list[dict[str, object]]:
    """Return the content of such a directory as parsed documents, for measurements without files."""
    text = [GATEWAY.format(port=8080), SERVICE.format(name="blue", port=9001)]
    text += [ROUTE.format(number=number, service="blue") for number in range(routes)]
    return list(yaml.load_all("---\n".join(text), Loader=yaml.CSafeLoader))


class Fleet:
    """A directory of route files and the gateway that serves it."""

    def __init__(self, directory: Path, routes: int, origins: dict[str, int]) -> None:
        self.directory, self.routes, self.port = directory / "files", routes, free_port()
        self.staging = directory / "staging"
        self.directory.mkdir(parents=True)
        self.staging.mkdir()
        (self.directory / "gateway.yaml").write_text(GATEWAY.format(port=self.port))
        for name, port in origins.items():
            (self.directory / f"service-{name}.yaml").write_text(SERVICE.format(name=name, port=port))
        self.process: subprocess.Popen[bytes] | None = None
        for number in range(routes):
            (self.directory / f"route-{number}.yaml").write_text(ROUTE.format(number=number, service="blue"))

    @contextlib.contextmanager
    def running(self, *options: str) -> Iterator[float]:
        """Run the gateway; yield the seconds from its start to a response of the last route."""
        log = (self.staging / "log").open("w")
        argv = [sys.executable, "-m", "varnish_gateway", "run", *options, str(self.directory)]
        started = time.monotonic()
        self.process = subprocess.Popen(argv, stdout=log, stderr=subprocess.STDOUT)
        try:
            self._wait(started + 120)
            yield time.monotonic() - started
        finally:
            self.process.terminate()
            self.process.wait(timeout=60)
            log.close()

    def _wait(self, deadline: float) -> None:
        while time.monotonic() < deadline:
            if self.process is None or self.process.poll() is not None:
                raise RuntimeError(f"vgw run exited: {(self.staging / 'log').read_text()}")
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.ask(self.connect(), self.routes - 1) == "blue":
                    return
            time.sleep(0.01)
        raise RuntimeError(f"vgw run does not serve: {(self.staging / 'log').read_text()}")

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)

    def ask(self, connection: http.client.HTTPConnection, number: int) -> str:
        """Return the name of the origin that answers for a route, or the status if it isn't 200."""
        connection.request("GET", "/", headers={"Host": f"h{number}.example.com"})
        answer = connection.getresponse()
        body = answer.read().decode()
        return body if answer.status == 200 else str(answer.status)

    def switch(self, number: int, service: str) -> float:
        """Point a route to another origin; return the seconds until traffic goes there."""
        text = ROUTE.format(number=number, service=service)
        seconds, origin = self.replace(f"route-{number}.yaml", text, lambda connection: self.ask(connection, number))
        if origin != service:
            raise RuntimeError(f"route {number} leads to {origin} instead of {service}")
        return seconds

    def replace(self, name: str, text: str, see: Callable[[http.client.HTTPConnection], str]) -> tuple[float, str]:
        """Replace a file; return the seconds until ``see`` sees something else, and what that is."""
        staged = self.staging / "staged.yaml"
        staged.write_text(text)
        connection = self.connect()
        before = see(connection)
        started = time.perf_counter()
        staged.rename(self.directory / name)
        while (after := see(connection)) == before:
            if time.perf_counter() - started > 30:
                raise RuntimeError(f"{name} never took effect: {(self.staging / 'log').read_text()[-2000:]}")
        elapsed = time.perf_counter() - started
        connection.close()
        return elapsed, after
