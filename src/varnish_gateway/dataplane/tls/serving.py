"""HAProxy with one plan, and the ways from it to the next.

In:   plans.
Out:  a HAProxy that serves the last one that worked. Certificates change while it serves, through
its admin socket; ports and authorities by a reload, in which the worker of before finishes what
it has. (HAProxy 2.6 crashes where both ways meet on one port: authorities never change at run time.)
The files on disk are always those that HAProxy should start with.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from varnish_gateway import errors
from varnish_gateway.dataplane.events import Bus
from varnish_gateway.dataplane.process.child import STOP_SECONDS
from varnish_gateway.dataplane.process.ports import first_taken
from varnish_gateway.dataplane.process.sockets import Socket
from varnish_gateway.dataplane.tls import events, haproxy
from varnish_gateway.dataplane.tls.admin import MOST_PAYLOAD, AdminSocket
from varnish_gateway.dataplane.tls.haproxy import Haproxy
from varnish_gateway.dataplane.tls.machine import machine
from varnish_gateway.dataplane.tls.plan import Plan, Steps, steps
from varnish_gateway.dataplane.tls.store import Store
from varnish_gateway.emit.haproxy import CONFIG, DIRECTORY, admin_socket, config, crt_list, list_file, list_line


class Serving:
    """``died`` is called when HAProxy ends without our doing, with the seconds that it served."""

    def __init__(self, work_dir: Path, bus: Bus, died: Callable[[float], None], drain_seconds: float = 0) -> None:
        self._work_dir = work_dir
        self._drain_seconds = drain_seconds
        self._bus = bus
        self._died = died
        self._machine = machine()
        self._store: Store | None = None
        self._haproxy: Haproxy | None = None
        self._watch: asyncio.Task[None] | None = None
        self._died_at: float | None = None
        self._number = 0
        self.admin = self._admin_socket()
        self._sockets: tuple[Socket, ...] = ()
        self.plan = Plan()
        self.is_mixed = False
        """Whether an exchange or a reload was not finished, so that only a reload makes it certain what serves."""

    @property
    def running(self) -> bool:
        return self._haproxy is not None and self._haproxy.running

    @property
    def pid(self) -> int | None:
        return self._haproxy.pid if self._haproxy is not None else None

    def check(self, content: bytes) -> None:
        """Raise BadDocument if a certificate with its key can't be used."""
        self._files.check(content)

    async def come_back(self) -> None:
        """Serve the present plan where HAProxy does not run any more."""
        if not self.running and self.plan.binds:
            await self._launch(self.plan)

    async def change(self, wanted: Plan, sockets: Iterable[Socket]) -> None:
        """Come to another plan; raise TlsRefused and leave everything as it is where that can't be."""
        bound, self._sockets = self._sockets, tuple(sockets)
        new, gone = wanted.ports - self.plan.ports, (self.plan.ports if self.running else set()) - wanted.ports
        if (taken := first_taken(socket for socket in self._sockets if socket.port in new)) is not None:
            raise taken
        if not wanted.binds:
            await self._end()
        elif not self.running or self.is_mixed or (way := steps(self.plan, wanted, MOST_PAYLOAD)) is None:
            await self._read_anew(wanted)
        else:
            self.is_mixed = True
            try:
                await self._exchange(wanted, way)
            except (errors.TlsRefused, OSError):
                await self._read_anew(wanted)  # it reads what is on disk, whatever became of the rest
        self.plan, self.is_mixed = wanted, False
        await _until_free([socket for socket in bound if socket.port in gone])

    def finish(self) -> None:
        """Take no new connections; those that are there may end."""
        if self._haproxy is not None:
            self._haproxy.finish()

    async def stop(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait({self._watch})
        if self._haproxy is not None:
            await self._haproxy.stop()

    # -- the ways --------------------------------------------------------------------------

    async def _end(self) -> None:
        """TLS ends nowhere any more."""
        ending, self._haproxy = self._haproxy, None
        if ending is not None:
            await ending.stop()
        self._files.write({})

    async def _read_anew(self, plan: Plan) -> None:
        """Have a HAProxy that has read the whole plan, whether one runs or has just died."""
        master = self._haproxy
        if master is not None and master.running:
            await self._reload(master, plan)
        else:
            await self._launch(plan)

    async def _launch(self, plan: Plan) -> None:
        if self._watch is not None and not self.running:
            await asyncio.wait({self._watch})  # it has a death to tell
        admin = self._write(plan)
        await self._refuse_unless_good(plan)
        self._haproxy = await haproxy.launch(self._work_dir, admin)
        self._talk_over(admin)
        self._watch = asyncio.create_task(self._watch_master(self._haproxy))
        self._bus.publish(events.HaproxyStarted(pid=self._haproxy.pid, ports=tuple(sorted(plan.ports))))
        if self._died_at is not None:
            self._bus.publish(events.HaproxyBack(seconds=time.monotonic() - self._died_at))
            self._died_at = None

    async def _reload(self, master: Haproxy, plan: Plan) -> None:
        """Raise ChildExited or OSError if the master dies meanwhile."""
        started = time.monotonic()
        admin = self._write(plan)
        try:
            await self._refuse_unless_good(plan)
            self.is_mixed = True
            await master.reload()
            await master.serves(admin)
        except BaseException:
            self._write(self.plan)
            raise
        self._talk_over(admin)
        seconds = time.monotonic() - started
        self._bus.publish(events.HaproxyReloaded(ports=tuple(sorted(plan.ports)), seconds=seconds))

    async def _refuse_unless_good(self, plan: Plan) -> None:
        """Raise TlsRefused before a running HAProxy is given up for what is on disk; what served once is good."""
        if plan is not self.plan:
            await haproxy.check(self._work_dir)

    async def _exchange(self, plan: Plan, way: Steps) -> None:
        """Change certificates while HAProxy serves: new ones first, so that every name always has one."""
        started = time.monotonic()
        self._write(plan)
        for name in way.replaced:
            await self._put(name, plan.files[name])
        for port, slot in way.added:
            await self.admin.do(f"new ssl cert {DIRECTORY}/{slot.name}", "New empty certificate store")
            await self._put(slot.name, plan.files[slot.name])
            line = f"{list_line(slot)}\n".encode()
            await self.admin.do(f"add ssl crt-list {DIRECTORY}/{list_file(port)}", "Success!", line)
        for port, slot in way.removed:
            name = f"{DIRECTORY}/{slot.name}"
            await self.admin.do(f"del ssl crt-list {DIRECTORY}/{list_file(port)} {name}", "deleted")
            await self.admin.do(f"del ssl cert {name}", "deleted")
        replaced, added, removed = map(len, way)
        seconds = time.monotonic() - started
        self._bus.publish(events.CertificatesChanged(replaced=replaced, added=added, removed=removed, seconds=seconds))

    async def _put(self, name: str, content: bytes) -> None:
        await self.admin.do(f"set ssl cert {DIRECTORY}/{name}", "Transaction", content)
        try:
            await self.admin.do(f"commit ssl cert {DIRECTORY}/{name}", "Success!")
        except (errors.TlsRefused, OSError):
            with contextlib.suppress(OSError):
                await self.admin.ask(f"abort ssl cert {DIRECTORY}/{name}")
            raise

    # -- files and the process -------------------------------------------------------------

    @property
    def _files(self) -> Store:
        """The files, from the first time on that there is TLS."""
        if self._store is None:
            self._store = Store(self._work_dir / DIRECTORY)
        return self._store

    def _write(self, plan: Plan) -> AdminSocket:
        """Write everything that HAProxy reads; return the socket by which one that has read it can be asked."""
        self._number += 1
        lists = {list_file(port): crt_list(slots).encode() for port, slots in plan.lists.items()}
        text = config(plan.binds, self._machine, self._number, self._drain_seconds)
        self._files.write({**plan.files, **lists, CONFIG: text.encode()})
        return self._admin_socket()

    def _admin_socket(self) -> AdminSocket:
        return AdminSocket(self._work_dir / DIRECTORY / admin_socket(self._number))

    def _talk_over(self, admin: AdminSocket) -> None:
        self.admin = admin
        self._files.forget_sockets(admin.path.name)

    async def _watch_master(self, master: Haproxy) -> None:
        began = time.monotonic()
        reason = await master.exited()
        if self._haproxy is master and not master.is_ending:
            self._haproxy = None
            self._died_at = time.monotonic()
            self._bus.publish(events.HaproxyExited(reason=reason))
            self._died(self._died_at - began)


async def _until_free(sockets: Sequence[Socket]) -> None:
    """Wait for a worker of before to let go of ports: they may be wanted again at once."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(STOP_SECONDS):
            while first_taken(sockets) is not None:  # noqa: ASYNC110 - the kernel tells nobody
                await asyncio.sleep(haproxy.POLL_SECONDS)
