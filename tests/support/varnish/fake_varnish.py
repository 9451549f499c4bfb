"""A data plane with fakes for varnishd, ghost and the TLS terminator.

In:   a directory, and the port at which ``FakeVarnish.answer`` serves ghost's reload socket.
Out:  a data plane whose collaborators a test makes fail.
"""

import asyncio
from pathlib import Path

import msgspec

from varnish_gateway import errors
from varnish_gateway.dataplane import events
from varnish_gateway.dataplane.change import Change
from varnish_gateway.dataplane.collaborators import Collaborators
from varnish_gateway.dataplane.dataplane import DataPlane
from varnish_gateway.dataplane.desired import DesiredConfiguration
from varnish_gateway.dataplane.ghost.files import Bundle, GhostFiles
from varnish_gateway.dataplane.ghost.reload import GhostInstaller
from varnish_gateway.dataplane.ghost.resolve import Resolver
from varnish_gateway.dataplane.process.sockets import parse_listen
from varnish_gateway.dataplane.quarantine import Quarantine, QuarantineDelays
from varnish_gateway.dataplane.retry import FaultRetry
from varnish_gateway.dataplane.settings import Settings
from varnish_gateway.dataplane.varnish.cli import CliError, CliStatus
from varnish_gateway.dataplane.varnish.cli.answers import ListenAddress, VclEntry
from varnish_gateway.dataplane.varnish.supervisor import Standing
from varnish_gateway.dataplane.varnish.vcl import VclLoader
from varnish_gateway.ir import wire
from varnish_gateway.ir.reserved import RELOAD_SOCKET

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
REFUSED = b"HTTP/1.1 500 No\r\nX-Ghost-Error: unsound\r\nContent-Length: 0\r\n\r\n"


class FakeVarnish:
    """Stands for varnishd: its supervisor, its command line, its worker and ghost inside it.

    ``faults`` end the next starts of a worker, ``load_faults`` the next loads. No VCL with ``rejected`` in it
    compiles, no worker starts with a VCL or routes that have ``unsound`` in them, and ``deadly`` routes kill it.
    A VCL that is "deaf" does not let ghost answer. ghost answers the first ``deaf_to_drains`` drains with an error.
    """

    running, may_go_back = True, False

    def __init__(self, config: Path) -> None:
        self._config = config
        self._in_use = ""
        self.vcls: dict[str, str] = {}
        self.faults: list[Exception] = []
        self.load_faults: list[Exception] = []
        self.ensure_faults: list[Exception] = []
        self.rejected, self.unsound, self.deadly = "nonsense", "unsound", ""
        self.reloads: list[str] = []
        self.is_draining, self.deaf_to_drains = False, 0
        self.starts_by_itself = False
        self.loads = self.launches = self.port = 0
        self.warnings = ()
        self.child_running = False
        self.addresses: tuple[ListenAddress, ...] = ()
        self.loaded = asyncio.Event()
        self.compiling = asyncio.Event()
        self.compiling.set()
        self._has_died = False

    # -- its supervisor ------------------------------------------------------------------

    @property
    def reload_port(self) -> int:
        return self.addresses[0].port

    async def ensure(self, *_) -> Standing:
        if self.ensure_faults:
            raise self.ensure_faults.pop(0)
        return Standing()

    async def go_back(self, problem) -> Standing:
        raise problem

    async def report_deaths(self) -> None: ...

    async def worker_died(self) -> bool:
        return self._has_died

    async def start_child(self) -> bool:
        if self.faults:
            raise self.faults.pop(0)
        if any(self.unsound in text for text in (*self.vcls.values(), self._routes())):
            raise errors.ChildExited("varnishd's worker does not start")
        self.addresses = (ListenAddress(RELOAD_SOCKET, "127.0.0.1", self.port),)
        self.child_running = True
        self._has_died = False
        return not self.starts_by_itself

    # -- what happens to it --------------------------------------------------------------

    def lose_worker(self) -> None:
        self.child_running = self.is_draining = False
        self._has_died = True

    def lose_varnishd(self) -> None:
        self.lose_worker()
        self.launches += 1
        self.vcls.clear()

    @property
    def serves(self) -> tuple[str, str]:
        """The VCL in use, and the routes in force as the disk has them."""
        assert self.child_running
        return self.vcls[self._in_use], self._routes()

    def _routes(self) -> str:
        manifest = msgspec.json.decode(self._config.read_bytes(), type=wire.Manifest)
        return ",".join(self._config.with_name(name).read_text() for name in manifest.routing)

    async def answer(self, reader, writer) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if self.child_running and b"/drain " in head:
            self.is_draining = not self.deaf_to_drains
            self.deaf_to_drains = max(0, self.deaf_to_drains - 1)
            writer.write(OK if self.is_draining else REFUSED)
        elif self.child_running:
            self.reloads.append(self._routes())
            if self.deadly and self.deadly in self._routes():
                self.lose_worker()
            else:
                is_bad = self.unsound in self._routes() or "deaf" in self.vcls[self._in_use]
                writer.write(REFUSED if is_bad else OK)
        writer.close()

    # -- its command line ----------------------------------------------------------------

    async def vcl_load(self, name: str, path: str) -> None:
        self.loads += 1
        self.loaded.set()
        await self.compiling.wait()
        if self.load_faults:
            raise self.load_faults.pop(0)
        text = Path(path).read_text()
        if self.rejected in text:
            raise CliError("vcl.load", CliStatus.PARAMETER, "no such word")
        self.vcls[name] = text

    async def vcl_use(self, name: str) -> None:
        self._in_use = name

    async def vcl_list(self) -> list[VclEntry]:
        return [
            VclEntry(name=name, status="active" if name == self._in_use else "available", state="auto", temperature="")
            for name in self.vcls
        ]

    async def vcl_discard(self, name: str) -> None:
        del self.vcls[name]


class NoTls:
    """A TLS terminator without a port."""

    task = in_force = last_good = None
    problems, unready_reason, is_busy, later_sockets, desired_ports = (), "", False, (), ()
    closed, deferred, has_tried_later, ports = {}, {}, False, frozenset()

    def subscribe(self, on_change) -> None: ...
    def start(self) -> None: ...
    def finish(self) -> None: ...
    def open(self) -> None: ...
    def update(self, tls, sockets) -> None: ...


def build(
    directory: Path, varnish: FakeVarnish, delays: QuarantineDelays, retry_seconds: float = 0.01, **waiting
) -> tuple[DataPlane, Collaborators]:
    """Assemble a data plane; ``waiting`` replaces the collaborators that a drain waits with."""
    settings = Settings(work_dir=directory, sockets=parse_listen("ghost-reload=127.0.0.1:0,http"))
    bus, work = events.Bus(), asyncio.Event()
    parts = Collaborators(
        bus=bus,
        work=work,
        desired=DesiredConfiguration(settings.sockets, ()),
        admin=varnish,
        supervisor=varnish,
        vcl=VclLoader(varnish, directory, Quarantine(work.set, delays)),
        ghost=GhostInstaller(
            directory / "ghost.json",
            rejected=Quarantine(work.set, delays),
            deadly=Quarantine(work.set, delays),
        ),
        resolver=Resolver(lambda _: None),
        terminator=NoTls(),
        retry=FaultRetry(bus, work.set, first=retry_seconds, last=4 * retry_seconds),
        **waiting,
    )
    return DataPlane(settings, parts), parts


def routes(name: str) -> Bundle:
    """Return ghost's files for routes that are never parsed here."""
    files = GhostFiles()
    files.update({0: name.encode()}, {})
    return files.bundle()


async def apply(plane, **change):
    if "routing" in change:
        change["bundle"] = change.pop("routing")
    return await asyncio.wait_for(plane.apply(Change(**change)), 5)


def events_of(plane, *kinds):
    return [record.event for record in plane.bus.history if isinstance(record.event, kinds)]
