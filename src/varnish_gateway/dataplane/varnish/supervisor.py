"""Keeps one varnishd running: manager and worker.

In:   the sockets and arguments that are wanted.
Out:  a varnishd that has them; deaths of its manager and of its worker are noticed at
once, told on the bus, and wake the data plane, which brings back what was served.
varnishd restarts its worker itself; ``start`` is sent only where it gave up.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import NamedTuple

from varnish_gateway import errors
from varnish_gateway.dataplane import events
from varnish_gateway.dataplane.ghost.loopback import get
from varnish_gateway.dataplane.process.ports import first_taken, in_use
from varnish_gateway.dataplane.process.sockets import Socket, Sockets
from varnish_gateway.dataplane.process.workdir import Layout
from varnish_gateway.dataplane.quarantine import Refused
from varnish_gateway.dataplane.settings import Settings
from varnish_gateway.dataplane.tls.machine import account
from varnish_gateway.dataplane.varnish.cli import Admin, CliError
from varnish_gateway.dataplane.varnish.cli.answers import ListenAddress
from varnish_gateway.dataplane.varnish.varnishd import Command, Varnishd, arguments, launch, refusal
from varnish_gateway.ir.reserved import RELOAD_SOCKET

CHILD_RETURN_SECONDS = 10.0
COMPLAINT_SECONDS = 1.0
PORTS_SECONDS = 5.0
POLL_SECONDS = 0.005
PROBE_PATH = "/.varnish-ghost/counters"  # not a request that a route would count


class Standing(NamedTuple):
    """How varnishd stands: a problem means that it runs as before.

    ``retry`` says that another attempt costs nothing.
    """

    problem: errors.ChildExited | None = None
    retry: bool = False


class Supervisor:
    """``wake`` is called whenever something happened that the data plane has to look at."""

    def __init__(
        self, settings: Settings, layout: Layout, admin: Admin, bus: events.Bus, wake: Callable[[], None]
    ) -> None:
        self._settings = settings
        self._layout = layout
        self._admin = admin
        self._bus = bus
        self._wake = wake
        self._account = account()
        self._varnishd: Varnishd | None = None
        self._ending: Varnishd | None = None
        self._watch: asyncio.Task[None] | None = None
        self._command = Command(())
        self._former: Command | None = None  # as long as no worker has run with the present one
        self._refused = Refused[Command](wake, costly=True)
        self._died_at: float | None = None
        self._deaths: list[str] = []
        self._death = asyncio.Event()
        self.launches = 0
        """How many varnishds there were, also those of a call that failed in the end: each new one holds no VCL."""
        self.child_running = False
        self.addresses: tuple[ListenAddress, ...] = ()  # known once a worker has run

    @property
    def running(self) -> bool:
        return self._varnishd is not None and self._varnishd.running

    @property
    def sockets(self) -> tuple[Socket, ...]:
        """What the present varnishd listens on."""
        return self._command.sockets if self.running else ()

    @property
    def reload_port(self) -> int:
        """Where ghost is asked; raise ConnectionError where no worker has told yet."""
        for address in self.addresses:
            if address.name == RELOAD_SOCKET:
                return address.port
        raise ConnectionError("varnishd's worker does not listen for reloads yet")

    @property
    def pid(self) -> int | None:
        return self._varnishd.pid if self._varnishd is not None else None

    async def ensure(self, sockets: Sockets, extra_args: tuple[str, ...] = ()) -> Standing:
        """Make varnishd run as wanted; raise ChildExited if there is none to keep instead."""
        wanted = Command(sockets.of_varnishd(self._layout.work_dir, self._account), extra_args)
        if not self.running:
            return await self._come_back(wanted)
        if self._command.covers(wanted):
            return Standing()
        return await self._change(wanted)

    async def _come_back(self, wanted: Command) -> Standing:
        """Start as varnishd last ran, where that is possible: what is wanted instead may not work."""
        if self._command.sockets and self._command != wanted:
            with contextlib.suppress(errors.ChildExited):
                await self._launch(self._command)
                return await self._change(wanted)
        await self._launch(wanted)
        return Standing()

    async def _change(self, wanted: Command) -> Standing:
        """Give the present varnishd up for another one, or keep what there was."""
        if (why := self._refused.why(wanted)) is not None:
            return Standing(errors.ChildExited(why))
        before = self._command
        our_ports = {socket.port for socket in before.sockets}
        if (taken := first_taken(socket for socket in wanted.sockets if socket.port not in our_ports)) is not None:
            return Standing(taken, retry=True)
        if wanted.extra_args != before.extra_args and (standing := await self._rehearse(wanted)) is not None:
            return standing
        what = "the listeners" if wanted.sockets != before.sockets else "its arguments"
        self._bus.publish(events.Restarting(reason=f"{what} changed"))
        try:
            await self._replace(wanted)
        except errors.ChildExited as problem:
            self._refuse(wanted, problem)
            await self._launch(before)
            return Standing(problem)
        self._former = before
        return Standing()

    async def _rehearse(self, wanted: Command) -> Standing | None:
        """Return how varnishd stands if it has something against its arguments."""
        try:
            problem = await refusal(wanted.extra_args)
        except errors.ChildExited as fault:
            return Standing(fault, retry=True)
        if problem is None:
            return None
        self._refused.note(wanted, str(problem))
        return Standing(problem)

    @property
    def may_go_back(self) -> bool:
        """Whether no worker has run since sockets or arguments changed."""
        return self._former is not None

    async def go_back(self, problem: errors.ChildExited) -> Standing:
        """Run as before the last change: no worker starts with that. Raise the problem if there was no change."""
        former, self._former = self._former, None
        if former is None:
            raise problem
        self._refuse(self._command, problem)
        await self._replace(former)
        return Standing(problem)

    async def _replace(self, command: Command) -> None:
        """Start another varnishd; a worker of the present one may hold its ports a little longer."""
        await self.stop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PORTS_SECONDS):
                while in_use(command.sockets):  # noqa: ASYNC110 - a port does not say when it is free
                    await asyncio.sleep(POLL_SECONDS)
        await self._launch(command)

    def _refuse(self, command: Command, problem: errors.ChildExited) -> None:
        """Leave a command alone for a while: what stands against it may pass."""
        delay = self._refused.note(command, str(problem))
        self._bus.publish(events.Fault(reason=str(problem), retry_seconds=delay))

    async def start_child(self) -> bool:
        """Return when the worker answers requests; start it where varnishd does not do so itself.

        Say whether we did. Raise ChildExited if it can't run at all.
        """
        is_ours = False
        try:
            async with asyncio.timeout(CHILD_RETURN_SECONDS):
                while (state := await self._admin.status()) != "running":
                    if state == "stopped":
                        await self._start_child()
                        is_ours = True
                    await asyncio.sleep(POLL_SECONDS)
                self.addresses = await self._admin.listen_addresses()
                await self._answers()
        except TimeoutError:
            raise ConnectionError("varnishd's worker does not answer") from None
        self.child_running = True
        self._death.clear()
        if self._former is not None:
            self._refused.clear()
            self._former = None
        if self._died_at is not None:
            self._bus.publish(events.ChildBack(seconds=time.monotonic() - self._died_at))
            self._died_at = None
        return is_ours

    async def _start_child(self) -> None:
        self._death.clear()
        try:
            await self._admin.start()
        except CliError as refusal:
            if not (await self.worker_died() and self.running):
                raise
            raise errors.ChildExited(f"varnishd's worker does not start: {self._deaths[-1]}") from refusal

    async def worker_died(self) -> bool:
        """Whether the worker has died; varnishd says so a moment later."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._death.wait(), COMPLAINT_SECONDS)
        return self._death.is_set()

    async def _answers(self) -> None:
        """Wait for an answer of any kind: a worker runs for a moment before it listens."""
        while True:
            with contextlib.suppress(ConnectionError):
                await get(self.reload_port, PROBE_PATH, CHILD_RETURN_SECONDS)
                return
            await asyncio.sleep(POLL_SECONDS)

    async def report_deaths(self) -> None:
        """Tell the bus about workers that died, with the panic that varnishd recorded."""
        while self._deaths:
            panic = await self._admin.panic_show()
            if panic is not None:
                await self._admin.panic_clear()
            self._bus.publish(events.ChildDied(reason=self._deaths.pop(0), panic=panic))

    async def close(self) -> None:
        """Stop for good."""
        self._refused.close()
        await self.stop()

    async def stop(self) -> None:
        self._ending, self._varnishd = self._varnishd or self._ending, None
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait({self._watch})
            self._watch = None
        if self._ending is not None:  # also one whose stop was cancelled
            await self._ending.stop()
            self._ending = None
        self.child_running = False

    async def _launch(self, command: Command) -> None:
        self.child_running = False
        self._died_at = None
        argv = arguments(self._settings, self._layout, command, self._admin.port)
        self._varnishd = await launch(argv, self._layout, self._admin, self._child_gone)
        self._watch = asyncio.create_task(self._watch_manager(self._varnishd))
        self._command = command
        self.launches += 1
        try:
            await self._set_paths()
        except BaseException:
            await self.stop()
            raise
        names = tuple(socket.argument for socket in command.sockets)
        self._bus.publish(events.VarnishdStarted(pid=self._varnishd.pid, sockets=names))

    async def _set_paths(self) -> None:
        """Put our directories before varnishd's own, whose names only varnishd knows."""
        for name, directories in (("vmod_path", (self._layout.vmod_dir,)), ("vcl_path", self._settings.vcl_dirs)):
            own = (await self._admin.param_show(name)).value
            await self._admin.param_set(name, ":".join([*map(str, directories), str(own)]))

    async def _watch_manager(self, varnishd: Varnishd) -> None:
        reason = await varnishd.exited()
        if self._varnishd is varnishd:
            self._varnishd = None
            self.child_running = False
            self._admin.forget()
            self._bus.publish(events.VarnishdExited(reason=reason))
            self._wake()

    def _child_gone(self, reason: str) -> None:
        if self._varnishd is None:
            return  # we are stopping it ourselves
        self.child_running = False
        self._died_at = time.monotonic()
        self._deaths.append(reason)
        self._death.set()
        self._wake()
