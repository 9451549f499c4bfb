"""HAProxy with one plan, and the transitions from one plan to the next.

In:   plans.
Out:  a HAProxy that serves the last plan that worked. Certificates change while it serves, through its
admin socket. Ports and authorities change by a reload, during which the former worker finishes its
connections; a budget bounds how often. (HAProxy 2.6 crashes where both happen on one port: authorities
never change at run time.)
The files on disk are always those that HAProxy should start with.
"""

import asyncio
import contextlib
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from varnish_gateway import errors
from varnish_gateway.dataplane.events import Bus
from varnish_gateway.dataplane.process.child import STOP_SECONDS
from varnish_gateway.dataplane.process.port_owners import TerminatorPort
from varnish_gateway.dataplane.process.ports import first_taken
from varnish_gateway.dataplane.process.sockets import Socket
from varnish_gateway.dataplane.tls import events, haproxy
from varnish_gateway.dataplane.tls.admin import MOST_PAYLOAD, AdminSocket
from varnish_gateway.dataplane.tls.budget import ReloadBudget
from varnish_gateway.dataplane.tls.haproxy import Haproxy
from varnish_gateway.dataplane.tls.machine import machine
from varnish_gateway.dataplane.tls.plan import PlanSteps, TlsPlan, changes_validation, steps, without_reload
from varnish_gateway.dataplane.tls.store import HaproxyFiles, remove_leftover_keys
from varnish_gateway.emit.haproxy import (
    CONFIG,
    DIRECTORY,
    admin_socket,
    config,
    crt_list,
    finish_seconds,
    list_file,
    list_line,
    master_socket,
)

SECRET_BYTES = 5
"""Of the names of HAProxy's sockets; at 10,000 guesses a second it takes years to find one."""


class HaproxyService:
    """``on_death`` is called when HAProxy exits unasked, with the seconds that it served."""

    def __init__(self, work_dir: Path, bus: Bus, on_death: Callable[[float], None], drain_seconds: float = 0) -> None:
        remove_leftover_keys(work_dir)  # there may be no TLS any more
        self._work_dir = work_dir
        self._drain_seconds = drain_seconds
        self._bus = bus
        self._on_death = on_death
        self._machine = machine()
        self._store: HaproxyFiles | None = None
        self._haproxy: Haproxy | None = None
        self._watch: asyncio.Task[None] | None = None
        self._died_at: float | None = None
        self._number, self._secret = 0, secrets.token_hex(SECRET_BYTES)
        self.admin = self._admin_socket()
        self.budget = ReloadBudget(finish_seconds(drain_seconds))
        self._sockets: tuple[Socket, ...] = ()
        self.plan = TlsPlan()
        self.is_mixed = False
        """Whether a transition was interrupted. Only a reload makes it certain again what serves."""

    @property
    def running(self) -> bool:
        return self._haproxy is not None and self._haproxy.running

    @property
    def pid(self) -> int | None:
        return self._haproxy.pid if self._haproxy is not None else None

    def check(self, content: bytes) -> None:
        """Raise BadDocument if a certificate with its key can't be used."""
        self._files.check(content)

    async def relaunch(self) -> None:
        """Start HAProxy with the present plan if it does not run any more."""
        if not self.running and self.plan.binds:
            await self._launch(self.plan)

    def postponed(self, desired: TlsPlan) -> tuple[float, TlsPlan]:
        """Return how long a plan has to wait, and what can be served of it until then.

        Whether clients are validated never waits: only the owner of a Gateway decides that, and for a reason. The
        authorities for it may be another user's, so they wait as ports do. Neither does the end of the last port wait,
        which leaves no former worker.
        """
        wait = self.budget.wait(time.monotonic())
        is_dead = bool(self.plan.binds) and not self.running
        if not wait or not desired.binds or is_dead or self.is_mixed or changes_validation(self.plan, desired):
            return 0.0, desired
        if self.running and steps(self.plan, desired, MOST_PAYLOAD) is not None:
            return 0.0, desired
        return wait, without_reload(self.plan, desired, MOST_PAYLOAD)

    async def change(self, desired: TlsPlan, ports: Iterable[TerminatorPort]) -> None:
        """Serve another plan; raise TlsRejected and change nothing if HAProxy rejects it."""
        bound, self._sockets = self._sockets, tuple(port.socket for port in ports)
        gone = (self.plan.ports if self.running else set()) - desired.ports
        if not desired.binds:
            await self._shut_down()
        elif not self.running or self.is_mixed or (way := steps(self.plan, desired, MOST_PAYLOAD)) is None:
            await self._read_all(desired)
        else:
            self.is_mixed = True
            try:
                await self._replace_certificates(desired, way)
            except (errors.TlsRejected, OSError):
                await self._read_all(desired)  # HAProxy reads the files on disk, whatever it applied before
        self.plan, self.is_mixed = desired, False
        await _until_free([socket for socket in bound if socket.port in gone])

    def finish(self) -> None:
        """Take no new connections; present ones may finish."""
        if self._haproxy is not None:
            self._haproxy.finish()

    async def stop(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait({self._watch})
        try:
            if self._haproxy is not None:
                await self._haproxy.stop()
        finally:
            if self._store is not None:
                self._store.remove()

    # -- transitions -----------------------------------------------------------------------

    async def _shut_down(self) -> None:
        """Stop HAProxy: there is no port any more. Requests have a moment to finish."""
        ending, self._haproxy = self._haproxy, None
        if ending is not None:
            ending.finish()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STOP_SECONDS):
                    await ending.exited()
            await ending.stop()
        self._files.write({})

    async def _read_all(self, plan: TlsPlan) -> None:
        """Ensure a HAProxy that has read the whole plan, whether one runs or has just died."""
        master = self._haproxy
        if master is not None and master.running:
            await self._reload(master, plan)
        else:
            await self._launch(plan)

    async def _launch(self, plan: TlsPlan) -> None:
        if self._watch is not None and not self.running:
            await asyncio.wait({self._watch})  # it publishes the death first
        if not self.plan.binds:
            self.budget.spend(time.monotonic())
        admin = self._write(plan)
        await self._check_new(plan)
        self._haproxy = await haproxy.launch(self._work_dir, admin, master_socket(self._secret))
        self._switch_admin(admin)
        self._watch = asyncio.create_task(self._watch_master(self._haproxy))
        self._bus.publish(events.HaproxyStarted(pid=self._haproxy.pid, ports=tuple(sorted(plan.ports))))
        if self._died_at is not None:
            self._bus.publish(events.HaproxyBack(seconds=time.monotonic() - self._died_at))
            self._died_at = None

    async def _reload(self, master: Haproxy, plan: TlsPlan) -> None:
        """Raise ChildExited or OSError if the master dies meanwhile."""
        started = time.monotonic()
        admin = self._write(plan)
        try:
            await self._check_new(plan)
            self.is_mixed = True
            self.budget.spend(time.monotonic())
            await master.reload()
            await master.serves(admin)
        except BaseException:
            self._write(self.plan)
            raise
        self._switch_admin(admin)
        seconds = time.monotonic() - started
        self._bus.publish(events.HaproxyReloaded(ports=tuple(sorted(plan.ports)), seconds=seconds))

    async def _check_new(self, plan: TlsPlan) -> None:
        """Raise TlsRejected if HAProxy rejects the files on disk; a plan that served before needs no check."""
        if plan is not self.plan:
            await haproxy.check(self._work_dir)

    async def _replace_certificates(self, plan: TlsPlan, way: PlanSteps) -> None:
        """Change certificates while HAProxy serves: first add, then remove, so that every name always has one."""
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
        except (errors.TlsRejected, OSError):
            with contextlib.suppress(OSError):
                await self.admin.ask(f"abort ssl cert {DIRECTORY}/{name}")
            raise

    # -- files and the process -------------------------------------------------------------

    @property
    def _files(self) -> HaproxyFiles:
        """The files on disk; the directory exists once there is TLS."""
        if self._store is None:
            self._store = HaproxyFiles(self._work_dir / DIRECTORY)
        return self._store

    def _write(self, plan: TlsPlan) -> AdminSocket:
        """Write everything that HAProxy reads; return the admin socket of a worker that has read it."""
        self._number += 1
        lists = {list_file(port): crt_list(slots).encode() for port, slots in plan.lists.items()}
        text = config(plan.binds, self._machine, self._admin_socket().path.name, self._drain_seconds)
        self._files.write({**plan.files, **lists, CONFIG: text.encode()})
        return self._admin_socket()

    def _admin_socket(self) -> AdminSocket:
        return AdminSocket(self._work_dir / DIRECTORY / admin_socket(self._number, self._secret))

    def _switch_admin(self, admin: AdminSocket) -> None:
        self.admin = admin
        self._files.remove_sockets((admin.path.name, master_socket(self._secret)))

    async def _watch_master(self, master: Haproxy) -> None:
        began = time.monotonic()
        reason = await master.exited()
        if self._haproxy is master and not master.is_stopping:
            self._haproxy = None
            self._died_at = time.monotonic()
            self._bus.publish(events.HaproxyExited(reason=reason))
            self._on_death(self._died_at - began)


async def _until_free(sockets: Sequence[Socket]) -> None:
    """Wait for a former worker to release ports: the next plan may need them at once."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(STOP_SECONDS):
            while first_taken(sockets) is not None:  # noqa: ASYNC110 - the kernel sends no notification
                await asyncio.sleep(haproxy.POLL_SECONDS)
