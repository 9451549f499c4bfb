"""``vgw run`` from outside: files in, traffic out."""

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import pytest

PATIENCE = 20.0
SOURCE = Path(__file__).parent.parent.parent / "src"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def eventually(check: Callable[[], object], what: str) -> None:
    """Poll until check is true."""
    deadline = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < deadline, f"not within {PATIENCE:g} s: {what}"
        time.sleep(0.01)


class Answer(NamedTuple):
    status: int
    body: str


def get(port: int, path: str = "/", host: str = "cafe.example.com") -> Answer:
    """Ask once; status 0 where nothing answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path, headers={"Host": host})
        response = connection.getresponse()
        return Answer(response.status, response.read().decode())
    except OSError:
        return Answer(0, "")
    finally:
        connection.close()


class _Origin(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = f"{self.server.name} {self.path}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def origin(name: str) -> Iterator[int]:
    """Serve answers with its name and the path that it was asked for."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Origin)
    server.name = name
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Run:
    """A running ``vgw run``."""

    def __init__(self, conf: Path, work: Path, *options: str) -> None:
        self.conf, self.work = conf, work
        self.log_path = work.parent / "log"
        command = [sys.executable, "-m", "varnish_gateway", "run", str(conf), "--work-dir", str(work)]
        with self.log_path.open("w") as log:
            self.process = subprocess.Popen(
                [*command, *options, "--log-format", "json"], stderr=log, env={**os.environ, "PYTHONPATH": str(SOURCE)}
            )

    @property
    def log(self) -> list[str]:
        lines = self.log_path.read_text().splitlines(keepends=True)
        return [json.loads(line)["message"] for line in lines if line.startswith("{") and line.endswith("\n")]

    def says(self, text: str) -> bool:
        return any(text in message for message in self.log)

    def varnishds(self) -> set[int]:
        """Return the processes of varnishd that work in our directory, managers and workers."""
        found = set()
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and str(self.work) in (entry / "cmdline").read_bytes().decode():
                    found.add(int(entry.name))
        return found - {self.process.pid}

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)


@pytest.fixture
def place() -> Iterator[Path]:
    """Make a directory that varnishd's users may enter."""
    directory = Path(tempfile.mkdtemp(prefix="vgw-test-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def run(place) -> Iterator[Callable[..., Run]]:
    conf = place / "conf"
    conf.mkdir()
    runs: list[Run] = []

    def start(*options: str) -> Run:
        runs.append(Run(conf, place / "work", *options))
        return runs[-1]

    start.conf = conf
    yield start
    for each in runs:
        if each.process.poll() is None:
            each.process.send_signal(signal.SIGINT)
            eventually(lambda log=each: log.says("stopping"), "the first signal was taken")
            each.stop()  # a second one does not wait for connections
        print(each.log_path.read_text())
        assert not each.varnishds()


def gateway(*ports: int, name: str = "cafe") -> str:
    listeners = "".join(f"\n  - {{name: http-{port}, port: {port}, protocol: HTTP}}" for port in ports)
    return f"""\
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: {name}}}
spec:
  gatewayClassName: varnish
  listeners:{listeners}
"""


def route(service: str, name: str = "cafe", parent: str = "cafe", host: str = "cafe.example.com") -> str:
    return f"""\
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: {name}}}
spec:
  parentRefs: [{{name: {parent}}}]
  hostnames: [{host}]
  rules: [{{backendRefs: [{{name: {service}, port: 80}}]}}]
"""


def service(name: str, port: int) -> str:
    return f"""\
apiVersion: v1
kind: Service
metadata: {{name: {name}}}
spec: {{ports: [{{port: 80}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: {name}-1, labels: {{kubernetes.io/service-name: {name}}}}}
addressType: IPv4
endpoints: [{{addresses: [127.0.0.1]}}]
ports: [{{port: {port}}}]
"""


def replace(path: Path, text: str) -> None:
    """Write as editors do: beside it, then by rename."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(text)
    temporary.rename(path)


@pytest.fixture
def origins() -> Iterator[dict[str, int]]:
    with origin("tea") as tea, origin("coffee") as coffee:
        yield {"tea": tea, "coffee": coffee}


@pytest.fixture
def cafe(run, origins) -> int:
    """Files of a small gateway; the port that it listens on."""
    port = free_port()
    (run.conf / "gateway.yaml").write_text(gateway(port))
    (run.conf / "route.yaml").write_text(route("tea"))
    for name, where in origins.items():
        (run.conf / f"{name}.yaml").write_text(service(name, where))
    return port


def test_files_become_traffic_and_edits_are_followed(run, cafe, origins):
    running = run()
    eventually(lambda: get(cafe) == (200, "tea /"), "the first answer")
    assert get(cafe, host="other.example.com").status == 404
    (before,) = [pid for pid in running.varnishds() if _is_manager(pid)]

    replace(run.conf / "route.yaml", route("coffee"))
    eventually(lambda: get(cafe) == (200, "coffee /"), "the route's change")

    replace(run.conf / "coffee.yaml", service("coffee", origins["tea"]))
    eventually(lambda: get(cafe) == (200, "tea /"), "the endpoints' change")

    (run.conf / "route.yaml").unlink()
    eventually(lambda: get(cafe).status == 404, "the route's removal")

    (run.conf / "sub").mkdir()
    (run.conf / "sub" / "route.yaml").write_text(route("tea"))
    eventually(lambda: get(cafe) == (200, "tea /"), "a route in a new directory")
    assert before in running.varnishds(), "none of this restarts varnishd"


def _is_manager(pid: int) -> bool:
    """Tell the manager, which is a child of ours, from the worker, which is a child of the manager."""
    status = Path(f"/proc/{pid}/status").read_text()
    parent = next(line.split()[1] for line in status.splitlines() if line.startswith("PPid:"))
    return b"varnishd" not in Path(f"/proc/{parent}/cmdline").read_bytes()


def test_a_bad_file_keeps_serving_and_its_correction_is_picked_up(run, cafe):
    running = run()
    eventually(lambda: get(cafe) == (200, "tea /"), "the first answer")

    (run.conf / "route.yaml").write_text(route("coffee").replace("backendRefs", "backendRef"))
    what = 'spec.rules[0].backendRef: unknown field; did you mean "backendRefs"?'
    complaint = f"{run.conf}/route.yaml:7: HTTPRoute default/cafe (document 1): {what}"
    eventually(lambda: running.says(complaint), "the complaint")
    (run.conf / "gateway.yaml").write_text("spec: [\n")
    eventually(lambda: running.says(f"{run.conf}/gateway.yaml:1: "), "the second complaint")
    assert get(cafe) == (200, "tea /")

    (run.conf / "route.yaml").write_text(route("coffee"))
    eventually(lambda: get(cafe) == (200, "coffee /"), "the correction")
    (run.conf / "gateway.yaml").write_text(gateway(cafe))


def test_a_start_with_bad_files_waits_for_the_correction(run, cafe):
    (run.conf / "gateway.yaml").write_text(gateway(cafe).replace("protocol", "protocoll"))
    running = run()
    eventually(lambda: running.says("there is no Gateway to serve yet"), "the warning")
    assert running.process.poll() is None
    (run.conf / "gateway.yaml").write_text(gateway(cafe))
    eventually(lambda: get(cafe) == (200, "tea /"), "the correction")


def test_a_change_of_listeners_restarts_varnishd_of_that_gateway(run, cafe):
    other, added = free_port(), free_port()
    (run.conf / "other.yaml").write_text(f"{gateway(other, name='other')}---\n{route('coffee', 'other', 'other')}")
    running = run()
    eventually(lambda: get(cafe) == (200, "tea /") and get(other) == (200, "coffee /"), "both Gateways")

    failures: list[Answer] = []
    ended = threading.Event()

    def ask_the_other() -> None:
        while not ended.is_set():
            answer = get(other)
            if answer != (200, "coffee /"):
                failures.append(answer)

    asking = threading.Thread(target=ask_the_other)
    asking.start()
    try:
        replace(run.conf / "gateway.yaml", gateway(cafe, added))
        eventually(lambda: get(added) == (200, "tea /"), "the new listener")
        assert get(cafe) == (200, "tea /")
    finally:
        ended.set()
        asking.join()
    assert failures == []
    assert running.says("restarting varnishd: the listeners changed")


def test_gateways_come_and_go(run, cafe):
    other = free_port()
    running = run()
    eventually(lambda: get(cafe) == (200, "tea /"), "the first Gateway")
    (run.conf / "other.yaml").write_text(f"{gateway(other, name='other')}---\n{route('coffee', 'other', 'other')}")
    eventually(lambda: get(other) == (200, "coffee /"), "the second Gateway")
    before = running.varnishds()
    (run.conf / "other.yaml").unlink()
    eventually(lambda: len(running.varnishds()) == len(before) // 2, "its end")
    assert get(other).status == 0
    assert get(cafe) == (200, "tea /")


def test_a_gateway_that_goes_and_comes_back(run, cafe):
    running = run()
    eventually(lambda: running.says("Programmed"), "the Gateway")
    (run.conf / "gateway.yaml").unlink()
    eventually(lambda: running.says("is gone"), "its removal")
    (run.conf / "gateway.yaml").write_text(gateway(cafe))
    eventually(lambda: running.says("stopped") and get(cafe) == (200, "tea /"), "another one in its place")


def test_a_port_moves_from_one_gateway_to_another(run, cafe):
    other = free_port()
    (run.conf / "other.yaml").write_text(f"{gateway(other, name='other')}---\n{route('coffee', 'other', 'other')}")
    run()
    eventually(lambda: get(cafe) == (200, "tea /") and get(other) == (200, "coffee /"), "both Gateways")
    replace(run.conf / "gateway.yaml", gateway(free_port()))
    replace(run.conf / "other.yaml", f"{gateway(other, cafe, name='other')}---\n{route('coffee', 'other', 'other')}")
    eventually(lambda: get(cafe) == (200, "coffee /"), "the port at its new owner")
    assert get(other) == (200, "coffee /")


def test_ports_that_collide_are_a_condition(run, cafe):
    (run.conf / "other.yaml").write_text(f"{gateway(cafe, name='other')}---\n{route('coffee', 'other', 'other')}")
    running = run()
    eventually(lambda: get(cafe) == (200, "tea /"), "the first Gateway")
    eventually(lambda: running.says("PortUnavailable"), "the condition of the second one")


def test_a_port_of_somebody_else_is_waited_for(run, cafe):
    with socket.socket() as somebody:
        somebody.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        somebody.bind(("0.0.0.0", cafe))
        somebody.listen()
        running = run()
        eventually(lambda: running.says("Gateway default/cafe: not Programmed"), "the condition")
    eventually(lambda: get(cafe) == (200, "tea /"), "the port, once it is free")


@pytest.mark.usefixtures("cafe")
def test_health_tells_what_serves(run):
    health = free_port()
    running = run("--health-addr", f"127.0.0.1:{health}")
    eventually(lambda: get(health, "/health").status == 200, "the process lives")
    eventually(lambda: get(health, "/ready").status == 200 and running.says("Programmed"), "the Gateway serves")
    told = json.loads(get(health, "/ready").body)
    assert told["gateways"]["default/cafe"]["upToDate"]
    (run.conf / "gateway.yaml").unlink()
    eventually(lambda: get(health, "/ready").status == 503, "without a Gateway nothing serves")


USER_VCL = """\
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: varnish}
spec:
  controllerName: varnish-software.com/gateway
  parametersRef: {group: gateway.varnish-software.com, kind: GatewayClassParameters, name: ours}
---
apiVersion: gateway.varnish-software.com/v1alpha1
kind: GatewayClassParameters
metadata: {name: ours}
spec:
  userVCLConfigMapRef: {name: vcl, namespace: default}
"""


def config_map(body: str) -> str:
    return f"""\
apiVersion: v1
kind: ConfigMap
metadata: {{name: vcl}}
data:
  user.vcl: |
    sub vcl_recv {{
      {body}
    }}
"""


def test_user_vcl_is_followed_and_the_last_good_one_stays(run, cafe):
    (run.conf / "class.yaml").write_text(USER_VCL)
    (run.conf / "vcl.yaml").write_text(config_map("return (synth(418));"))
    running = run()
    eventually(lambda: get(cafe).status == 418, "user VCL")
    (run.conf / "vcl.yaml").write_text(config_map("return (nonsense);"))
    eventually(lambda: running.says("Line 2"), "the compiler's words, with the user's own line")
    assert get(cafe).status == 418
    (run.conf / "vcl.yaml").write_text(config_map("return (synth(419));"))
    eventually(lambda: get(cafe).status == 419, "the correction")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_nothing_behind(run, cafe, number):
    running = run()
    eventually(lambda: get(cafe) == (200, "tea /"), "the first answer")
    assert running.varnishds()
    assert running.stop(number) == 0
    assert not running.varnishds()


def test_without_a_work_dir_the_temporary_one_is_removed(run, cafe, place):
    temporary = place / "tmp"
    temporary.mkdir(mode=0o755)
    command = [sys.executable, "-m", "varnish_gateway", "run", str(run.conf)]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "TMPDIR": str(temporary)}
    with (place / "log").open("w") as log:
        process = subprocess.Popen(command, stderr=log, env=environment)
    try:
        eventually(lambda: get(cafe) == (200, "tea /"), "the first answer")
        assert list(temporary.iterdir())
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    assert not list(temporary.iterdir())


def test_a_path_that_is_not_there_is_said_at_once(place):
    command = [sys.executable, "-m", "varnish_gateway", "run", str(place / "nowhere")]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(SOURCE)}
    )
    assert done.returncode == 2
    assert done.stderr == f"vgw: {place}/nowhere: no such file or directory\n"
