"""A real varnishd with ghost in it, and small origins, for tests.

In:   wire types (routes, listeners, pools) and user VCL.
Out:  a running varnishd on free loopback ports; answers to requests; what origins saw.

A ``Lab`` and an ``Origin`` are context managers and leave nothing behind. Everything that
varnishd reads lies in a directory of its own that the jailed user can traverse.
"""

import contextlib
import hashlib
import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import msgspec

from loopback import free_port
from support import processes
from support.directories import open_directory, replace
from support.http.client import Answer, Client
from support.http.origins import Origin
from support.waiting import until
from varnish_gateway.emit.routing import shard_of
from varnish_gateway.emit.vcl import main_vcl
from varnish_gateway.ir import UserVcl, wire
from varnish_gateway.ir.stores import sizes

ROOT = Path(__file__).parents[3]
VMOD = Path(os.environ.get("GHOST_VMOD", ROOT / "build" / "libvmod_ghost.so"))
PANICKING = Path(os.environ.get("GHOST_VMOD_PANIC", ROOT / "build" / "libvmod_ghost_panic.so"))
"""The VMOD with the feature test-panic: it panics, or waits, where a test says so."""
SANITIZER = os.environ.get("GHOST_SANITIZER", "")
"""The runtime of AddressSanitizer that a VMOD built with it needs, if it is one (tools/verify_rust.py)."""
ADMIN = "ghost-reload"

CACHE_EVERYTHING = "sub vcl_recv { return (hash); }\n"


# -- configuration ---------------------------------------------------------------------


def refusing_endpoint() -> wire.Endpoint:
    """Return an address of loopback that no process listens on."""
    return wire.Endpoint(address="127.0.0.1", port=free_port())


@contextlib.contextmanager
def black_hole() -> Iterator[wire.Endpoint]:
    """Yield an address of loopback where no connection is ever made or refused: the queue of its listener is full."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        address, port = listener.getsockname()
        with contextlib.suppress(TimeoutError):
            while True:
                stack.enter_context(socket.create_connection((address, port), timeout=0.5))
        yield wire.Endpoint(address=address, port=port)


HTTP_80 = wire.Listener(name="http", socket="http-80", port=80)


def backend(service: str, *, weight: int = 1, filters: wire.Filters | None = None) -> wire.Backend:
    """Make a backendRef to port 80 of a service in the namespace "default"."""
    return wire.Backend(service=f"default/{service}", port=80, weight=weight, filters=filters)


def prefix(path: str) -> wire.Match:
    return wire.Match(path=wire.PathMatch(type="prefix", value=path))


def route(
    name: str,
    *rules: wire.Rule,
    hosts: Sequence[str] = ("*",),
    listeners: Sequence[str] = ("http",),
    created: int = 0,
) -> wire.Route:
    """Make a route of the namespace "default"."""
    attachments = tuple(wire.Attachment(listener=listener, hostnames=tuple(hosts)) for listener in listeners)
    return wire.Route(namespace="default", name=name, created=created, attachments=attachments, rules=rules)


def to(*backends: wire.Backend, matches: Sequence[wire.Match] = (wire.Match(),), **parts: Any) -> wire.Rule:
    """Make a rule that forwards."""
    return wire.Rule(matches=tuple(matches), backends=backends, **parts)


@dataclass
class Config:
    """A configuration; pools are named like ``tea`` for the pool ``default/tea:80``."""

    routes: Sequence[wire.Route] = ()
    pools: Mapping[str, Sequence[Origin | wire.Endpoint]] = field(default_factory=dict)
    listeners: Sequence[wire.Listener] = (HTTP_80,)
    requests: wire.RequestRules | None = None
    shards: int = 1
    id: str = ""

    def write(self, directory: Path) -> None:
        """Write shard files named by content, then the manifest by rename."""
        routing = [_write(directory, f"routing-{n}", self._routing(n)) for n in range(self.shards)]
        pools = {
            f"default/{name}:80": tuple(one.endpoint if isinstance(one, Origin) else one for one in members)
            for name, members in self.pools.items()
        }
        endpoints = _write(directory, "endpoints-0", wire.Endpoints(version=2, pools=pools))
        identity = self.id or hashlib.sha256("".join([*routing, endpoints]).encode()).hexdigest()[:16]
        manifest = wire.Manifest(version=2, id=identity, routing=tuple(routing), endpoints=(endpoints,))
        replace(directory / "ghost.json", msgspec.json.encode(manifest))

    def _routing(self, shard: int) -> wire.Routing:
        def here(one: wire.Route) -> bool:
            return shard_of(one.namespace, one.name, self.shards) == shard

        routes = tuple(one for one in self.routes if here(one))
        head = wire.Routing(version=2, shard=shard, shards=self.shards, routes=routes)
        if shard > 0:
            return head
        return msgspec.structs.replace(head, requests=self.requests, listeners=tuple(self.listeners))


def _write(directory: Path, stem: str, content: wire.Wire) -> str:
    encoded = msgspec.json.encode(content)
    name = f"{stem}-{hashlib.sha256(encoded).hexdigest()[:16]}.json"
    if not (directory / name).exists():
        replace(directory / name, encoded)
    return name


# -- varnishd --------------------------------------------------------------------------


class GhostHarness:
    """A running varnishd."""

    def __init__(
        self,
        config: Config | bytes,
        *,
        user_vcl: str = "",
        sockets: Sequence[str] = ("http-80",),
        parameters: Mapping[str, str] | None = None,
        vmod: Path = VMOD,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._stack = contextlib.ExitStack()
        self._config = config
        self._user_vcl = user_vcl
        self._sockets = (*sockets, ADMIN)
        self._parameters = {"feature": "+http2", **(ROOMY if SANITIZER else {}), **(parameters or {})}
        self._vmod = vmod
        self._environment = dict(environment or {})
        self._loaded = 0
        self.ports: dict[str, int] = {}

    def __enter__(self) -> Self:
        with self._stack:
            self.directory = self._stack.enter_context(open_directory())
            self.configure(self._config)
            self._start()
            self.load_vcl(self._user_vcl)
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self) -> None:
        vmods = self.directory / "vmods"
        vmods.mkdir()
        shutil.copy(self._vmod, vmods / "libvmod_ghost.so")
        parameters = {"vmod_path": f"{vmods}:{varnish_vmods()}", **self._parameters}
        command = ["varnishd", "-F", "-n", str(self.directory / "varnish"), "-f", "", "-s", "malloc,64m"]
        command += [part for name in self._sockets for part in ("-a", _listen(name))]
        command += [part for name, value in parameters.items() for part in ("-p", f"{name}={value}")]
        ours = {"GHOST_CONFIG_PATH": str(self.config_path), "GHOST_STORES": sizes(command)}
        environment = {**os.environ, **ours, **_sanitized(self._environment)}
        output = self._stack.enter_context((self.directory / "output").open("wb"))
        self._varnishd = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
        self._stack.callback(self._stop)
        until(self._accepts_commands, "varnishd accepts commands")

    def _stop(self) -> None:
        self._varnishd.send_signal(signal.SIGTERM)
        try:
            self._varnishd.wait(10)
        except subprocess.TimeoutExpired:
            self._varnishd.kill()
            self._varnishd.wait()
        if SANITIZER and "AddressSanitizer" in self.output:
            raise SanitizerReport(self.output)

    def _accepts_commands(self) -> bool:
        if self._varnishd.poll() is not None:
            raise AssertionError(f"varnishd ended: {self.output}")
        return self._varnishadm("ping").returncode == 0

    @property
    def config_path(self) -> Path:
        return self.directory / "ghost.json"

    @property
    def output(self) -> str:
        """What varnishd wrote."""
        return (self.directory / "output").read_text(errors="replace")

    @property
    def log(self) -> str:
        """Varnishd's log of recent requests."""
        return self._read_log("-g", "request")

    @property
    def fetches(self) -> list[str]:
        """Varnishd's log of recent fetches that it is done with."""
        ended = re.compile(r"-\s+End\s*\Z")
        return [fetch for fetch in self._read_log("-b", "-g", "vxid").split("\n\n") if ended.search(fetch)]

    def _read_log(self, *options: str) -> str:
        call = ["varnishlog", "-d", *options, "-n", str(self.directory / "varnish")]
        return subprocess.run(call, capture_output=True, text=True, errors="replace", check=True).stdout

    def wait_recycled(self, path: str) -> None:
        """Wait until another fetch can use the connection of this one, which may be after the client has its answer."""
        recycled = re.compile(rf"BereqURL +{path}\n.*BackendClose .*recycle", re.DOTALL)
        until(lambda: bool(recycled.search(self.log)), "the connection can be used again")

    # -- administration

    def _varnishadm(self, *command: str) -> subprocess.CompletedProcess[str]:
        call = ["varnishadm", "-n", str(self.directory / "varnish"), *command]
        return subprocess.run(call, capture_output=True, text=True, check=False)

    def admin(self, *command: str) -> str:
        """Run a command of varnishd's command line interface."""
        done = self._varnishadm(*command)
        if done.returncode != 0:
            raise VarnishError(done.stdout + done.stderr)
        return done.stdout

    def load_vcl(self, user_vcl: str = "", *, whole: str | None = None) -> str:
        """Load the VCL that ships, with user VCL in it or a ``whole`` other one; use it and return its name."""
        self._loaded += 1
        name = f"vcl{self._loaded}"
        path = self.directory / f"{name}.vcl"
        path.write_text(whole if whole is not None else main_vcl(UserVcl(source="the test", text=user_vcl)))
        self.admin("vcl.load", name, str(path))
        self.admin("vcl.use", name)
        if self._loaded == 1:
            self.admin("start")
            self.ports = dict(until(self._listening, "varnishd listens"))
        return name

    def _listening(self) -> list[tuple[str, int]]:
        lines = [line.split() for line in self.admin("debug.listen_address").splitlines() if line]
        return [(name, int(port)) for name, _, port in lines]

    def configure(self, config: Config | bytes) -> None:
        """Write the configuration, without a reload. Bytes are the text of ghost.json."""
        if isinstance(config, Config):
            config.write(self.directory)
        else:
            replace(self.config_path, config)

    def reload(self, config: Config | bytes | None = None, *, method: str = "GET") -> Answer:
        """Have ghost read the configuration again."""
        if config is not None:
            self.configure(config)
        return self.get("/.varnish-ghost/reload", method=method, socket=ADMIN)

    def counters(self) -> Any:
        return self.get("/.varnish-ghost/counters", socket=ADMIN).json

    # -- requests

    def client(self, socket: str = "http-80", *, address: str | None = None) -> Client:
        return Client(self.ports[socket], address=address)

    def get(self, path: str = "/", *, socket: str = "http-80", **request: Any) -> Answer:
        """Send one request on a connection of its own."""
        with self.client(socket) as client:
            return client.get(path, **request)

    def raw(self, request: bytes, *, socket_name: str = "http-80") -> bytes:
        """Send bytes and return everything until varnishd closes."""
        with socket.create_connection(("127.0.0.1", self.ports[socket_name]), timeout=20) as connection:
            connection.sendall(request)
            with contextlib.suppress(ConnectionResetError):
                return b"".join(iter(lambda: connection.recv(65536), b""))
            return b""

    # -- the child process

    @property
    def child(self) -> int:
        """The process that serves."""
        return processes.children(self._varnishd.pid)[-1]

    @property
    def open_files(self) -> int:
        return len(list(Path(f"/proc/{self.child}/fd").iterdir()))

    @property
    def resident_bytes(self) -> int:
        """Return the worker's own memory. varnishd's log, which it shares, fills with every request until it wraps."""
        return processes.kilobytes(self.child, "RssAnon") * 1024


ROOMY = {"thread_pool_stack": "1m"}
"""Functions that a sanitizer checks need more stack than varnishd's threads have."""


def _sanitized(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Add what varnishd needs to load a VMOD with AddressSanitizer. What varnishd itself leaks is its own."""
    if not SANITIZER:
        return environment
    libraries = ":".join(filter(None, [SANITIZER, environment.get("LD_PRELOAD")]))  # the sanitizer has to be first
    options = "detect_leaks=0:abort_on_error=0:handle_segv=0:handle_abort=0"
    return {**environment, "LD_PRELOAD": libraries, "ASAN_OPTIONS": options}


def _listen(name: str) -> str:
    """Return the argument for a socket; "name,PROXY" is one behind a TLS terminator."""
    name, comma, protocol = name.partition(",")
    return f"{name}=127.0.0.1:0{comma}{protocol}"


def varnish_vmods() -> str:
    """Return the directory of the VMODs that come with Varnish."""
    call = ["pkg-config", "--variable=vmoddir", "varnishapi"]
    return subprocess.run(call, capture_output=True, text=True, check=True).stdout.strip()


class VarnishError(Exception):
    """varnishd refused a command."""


class SanitizerReport(AssertionError):
    """A sanitizer found an error in the VMOD."""


@contextlib.contextmanager
def load(
    ghost: GhostHarness, path: str = "/", *, threads: int = 4, **request: Any
) -> Iterator[list[Answer | Exception]]:
    """Send requests all the time; the list holds what came of them."""
    results: list[Answer | Exception] = []
    stop = threading.Event()

    def run() -> None:
        with ghost.client() as client:
            while not stop.is_set():
                try:
                    results.append(client.get(path, **request))
                except (OSError, http.client.HTTPException) as error:
                    results.append(error)
                    return

    workers = [threading.Thread(target=run) for _ in range(threads)]
    for worker in workers:
        worker.start()
    try:
        yield results
    finally:
        stop.set()
        for worker in workers:
            worker.join()
