"""Shared by the measurements: varnishd with or without ghost, an origin, load, CPU time.

Everything runs on loopback. Each context manager stops the processes that it started.
"""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

from loopback import free_port
from support.processes import children, cpu_seconds
from varnish_gateway.api import Key
from varnish_gateway.dataplane.varnish.parameters import parameters
from varnish_gateway.emit.routing import Shards
from varnish_gateway.ir import wire

ROOT = Path(__file__).parent.parent
VMOD = ROOT / "build" / "libvmod_ghost.so"
MEASURED_CORE, LOAD_CORE = min(os.sched_getaffinity(0)), max(os.sched_getaffinity(0))
"""The measured varnishd has its own core; load generator and origin share another one, if the machine has two."""

ORIGIN_VCL = """\
vcl 4.1;
backend none none;
sub vcl_recv { return (synth(200)); }
sub vcl_synth {
    set resp.http.Content-Type = "text/plain";
%s
    set resp.body = "%s";
    return (deliver);
}
"""
SERIAL = "X-Serial"
"""The header with the number of a response, of an origin that caches are measured with."""
CACHEABLE = {SERIAL: "req.xid", "Cache-Control": '"public, max-age=86400"'}
"""Headers of such an origin, as VCL expressions."""
NO_HEADERS: Mapping[str, str] = {}


@contextlib.contextmanager
def open_directory() -> Iterator[Path]:
    """Create a directory that varnishd's unprivileged worker can read."""
    path = Path(tempfile.mkdtemp(prefix="vgw-bench-"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@dataclass
class Server:
    """A running server: the process that does its work, and the port of clients."""

    child: int
    port: int

    def cpu_seconds(self) -> float:
        """Return the CPU time of the worker process, all threads together."""
        return cpu_seconds(self.child)


@dataclass
class Varnish(Server):
    """A running varnishd."""

    reload_port: int

    def memory(self) -> dict[str, int]:
        """Return the worker's resident memory (VmRSS) and the anonymous part of it (RssAnon), in bytes."""
        status = Path(f"/proc/{self.child}/status").read_text()
        return {kind: int(size) * 1024 for kind, size in re.findall(r"(VmRSS|RssAnon):\s+(\d+) kB", status)}


@contextlib.contextmanager
def varnish(
    vcl: str, directory: Path, *, ghost_config: Path | None = None, core: int = MEASURED_CORE, host: str = "127.0.0.1"
) -> Iterator[Varnish]:
    """Run varnishd with a VCL; yield when it listens."""
    port, reload_port = free_port(), free_port()
    directory.mkdir(exist_ok=True)
    (directory / "main.vcl").write_text(vcl)
    shutil.copy(VMOD, directory / VMOD.name)
    argv = [
        *("taskset", "--cpu-list", str(core)),
        *("varnishd", "-F", "-n", str(directory / "run"), "-f", str(directory / "main.vcl")),
        *("-a", f"http-80={host}:{port}", "-a", f"ghost-reload=127.0.0.1:{reload_port}"),
        *("-s", "default,256m", "-p", f"vmod_path={directory}", "-p", "thread_pool_min=50"),
        *parameters(),  # plain varnishd uses the gateway's parameters too
    ]
    environment = {**os.environ, "GHOST_CONFIG_PATH": str(ghost_config or "")}
    with running(argv, (host, port), directory / "varnishd.log", environment) as process:
        yield Varnish(children(process.pid)[0], port, reload_port)


@contextlib.contextmanager
def running(
    argv: Sequence[str], address: tuple[str, int], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server; yield when it listens."""
    with log.open("w") as output:
        process = subprocess.Popen(argv, stdout=output, stderr=subprocess.STDOUT, env=environment)
    try:
        wait_for_port(address, process, log)
        yield process
    finally:
        process.terminate()
        process.wait(timeout=30)


def wait_for_port(address: tuple[str, int], process: subprocess.Popen[bytes], log: Path, seconds: float = 60) -> None:
    """Return when the process listens; raise an error with its log if it exits first."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the server exited: {log.read_text()}")
        with contextlib.suppress(OSError), socket.create_connection(address, timeout=1):
            return
        time.sleep(0.02)
    raise RuntimeError(f"nothing listens on {address}: {log.read_text()}")


@contextlib.contextmanager
def origin(
    directory: Path, body: str = "x" * 1024, host: str = "127.0.0.1", headers: Mapping[str, str] = NO_HEADERS
) -> Iterator[int]:
    """Run a cheap origin, varnishd with a synthetic response; yield its port. Headers are VCL expressions."""
    lines = "\n".join(f"    set resp.http.{name} = {expression};" for name, expression in headers.items())
    with varnish(ORIGIN_VCL % (lines, body), directory, core=LOAD_CORE, host=host) as server:
        yield server.port


def write_ghost(directory: Path, routes: Sequence[wire.Route], pools: dict[str, tuple[wire.Endpoint, ...]]) -> Path:
    """Write a ghost configuration with these routes on socket http-80; return the manifest's path."""
    directory.mkdir(exist_ok=True)
    listener = wire.Listener(name="http", socket="http-80", port=80)
    shards = Shards()
    shards.update(
        listeners=(listener,), routes={Key("HTTPRoute", route.namespace, route.name): route for route in routes}
    )
    names = []
    for number, encoded in shards.all().items():
        names.append(f"routing-{number}.json")
        (directory / names[-1]).write_bytes(encoded)
    (directory / "endpoints-0.json").write_bytes(msgspec.json.encode(wire.Endpoints(version=2, pools=pools)))
    manifest = wire.Manifest(version=2, id="bench", routing=tuple(names), endpoints=("endpoints-0.json",))
    path = directory / "ghost.json"
    path.write_bytes(msgspec.json.encode(manifest))
    return path


def load(port: int, requests: Sequence[str], seconds: int, directory: Path) -> int:
    """Send these requests in a cycle for some seconds; return the number of responses."""
    lua = directory / "requests.lua"
    quoted = ",\n".join(json.dumps(request) for request in requests)  # Lua reads these escapes too
    lua.write_text(
        f"local all = {{\n{quoted}\n}}\nlocal n = 0\nrequest = function() n = n % #all + 1 return all[n] end\n"
    )
    argv = [
        "taskset",
        "--cpu-list",
        str(LOAD_CORE),
        "wrk",
        "-t1",
        "-c8",
        f"-d{seconds}s",
        "-s",
        str(lua),
        f"http://127.0.0.1:{port}/",
    ]
    output = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in output or "Socket errors" in output:
        raise RuntimeError(f"requests failed under load:\n{output}")
    found = re.search(r"(\d+) requests in", output)
    if found is None or int(found[1]) == 0:
        raise RuntimeError(f"wrk reported no responses:\n{output}")
    return int(found[1])
