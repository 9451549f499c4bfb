"""The gateway's image serves as in a pod: an unprivileged user, no capabilities, a read-only root."""

import json
from pathlib import Path

import pytest
import yaml

from support.directories import replace
from support.http.client import Answer, Client
from support.http.origins import Origin
from support.images.containers import Container, Image
from support.varnish.dataplane import slice_document
from support.waiting import until
from varnish_gateway.emit.vcl import main_vcl
from varnish_gateway.ir import pod

CONFIGURATION = "/etc/varnish-gateway"
LISTEN = "ghost-reload=127.0.0.1:8969,http;http-80=:80,http"
ENVIRONMENT = {
    "NAMESPACE": "n",
    "VARNISH_LISTEN": LISTEN,
    "VARNISH_STORAGE": "malloc,16m",
    "VCL_PATH": f"{CONFIGURATION}/main.vcl",
    "ROUTING_CONFIG_PATH": f"{CONFIGURATION}/routing.json",
    "ENDPOINTS_PATH": f"{CONFIGURATION}/endpoints",
    "WORK_DIR": pod.WORK.path,
    "VARNISH_DIR": pod.VARNISH_DIR,
    "DRAIN_SECONDS": "0.5",
}


class Pod:
    """The volumes of a gateway pod, and its configuration as plain files."""

    def __init__(self, image: Image, workdir: Path) -> None:
        self._image, self._place = image, workdir
        self._configuration = workdir / "configuration"
        (self._configuration / "endpoints").mkdir(parents=True)
        self.volumes = {mount.path: _empty_dir(workdir / mount.volume) for mount in (pod.WORK, pod.VARNISH, pod.TMP)}
        self.write("main.vcl", main_vcl())

    def write(self, name: str, text: str) -> None:
        replace(self._configuration / name, text)

    def route(self, **origins: Origin) -> None:
        """Have the host of each name answered by an origin."""
        for service, origin in origins.items():
            document = yaml.safe_dump(slice_document(service, origin.endpoint.port))
            self.write(f"endpoints/{service}.yaml", document)
        vhosts = {name: {"service": name, "namespace": "n", "port": 80, "weight": 100} for name in origins}
        self.write("routing.json", json.dumps({"version": 1, "vhosts": vhosts}))

    def gateway(self) -> Container:
        volumes = {**self.volumes, CONFIGURATION: self._configuration}
        return Container(self._image, self._place, environment=ENVIRONMENT, volumes=volumes, read_only=[CONFIGURATION])

    def access_log(self) -> Container:
        """Make the container that only sees varnishd's shared memory."""
        return Container(
            self._image,
            self._place,
            ["varnishncsa", "-n", pod.VARNISH_DIR, "-t", "off", "-F", "%s %{Host}i%U"],
            environment={"VSM_NOPID": "1"},
            volumes={pod.VARNISH.path: self.volumes[pod.VARNISH.path]},
            read_only=[pod.VARNISH.path],
        )


def _empty_dir(path: Path) -> Path:
    """Make an emptyDir as the kubelet does with fsGroup."""
    path.mkdir()
    path.chmod(0o2777)
    return path


def ask(host: str, path: str = "/") -> Answer:
    with Client(80) as client:
        return client.get(path, host=host)


def answers(host: str) -> str | None:
    try:
        return ask(host).origin
    except OSError:
        return None


@pytest.fixture
def served(gateway, workdir, tea) -> Pod:
    pod = Pod(gateway, workdir)
    pod.route(tea=tea)
    return pod


def test_gateway_container_serves_and_applies_changes(served, tea, coffee):
    with served.gateway() as running:
        until(lambda: answers("tea") == "tea", "tea is served")
        served.route(tea=tea, coffee=coffee)
        until(lambda: answers("coffee") == "coffee", "coffee is served")
        served.write("main.vcl", main_vcl().replace("ghost.deliver();", 'ghost.deliver(); set resp.http.Says = "two";'))
        until(lambda: ask("tea").header("says") == "two", "the new VCL is in use")
        assert running.stop() == 0, running.output
    assert "rror" not in running.output


def test_access_log_is_readable_from_another_container(served):
    with served.access_log() as log, served.gateway():
        until(lambda: answers("tea") == "tea", "tea is served")
        # It looks for varnishd periodically, and reports what happens after it found it.
        until(lambda: ask("tea", "/logged").status == 200 and "200 tea/logged" in log.output, "requests are logged")
