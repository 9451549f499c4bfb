"""Keep one varnishd running: manager and worker.

In:   the desired sockets and arguments.
Out:  a varnishd that has them. The supervisor notices the death of the manager or the worker at once,
publishes it and wakes the data plane, which restores the last good configuration.
varnishd restarts its worker itself; the supervisor sends ``start`` only where varnishd gave up.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from varnish_gateway import errors
from varnish_gateway.dataplane import events
from varnish_gateway.dataplane.ghost.loopback import get
from varnish_gateway.dataplane.process import landlock
from varnish_gateway.dataplane.process.ports import first_taken, in_use
from varnish_gateway.dataplane.process.sockets import Socket, Sockets
from varnish_gateway.dataplane.process.workdir import Layout
from varnish_gateway.dataplane.quarantine import Quarantine
from varnish_gateway.dataplane.settings import Settings
from varnish_gateway.dataplane.varnish.cli import Admin, CliError
from varnish_gateway.dataplane.varnish.cli.answers import ListenAddress
from varnish_gateway.dataplane.varnish.cli.commands import ChildState
from varnish_gateway.dataplane.varnish.fence import fence_of
from varnish_gateway.dataplane.varnish.parameters import missing_limit, parameters
from varnish_gateway.dataplane.varnish.varnishd import Command, Varnishd, arguments, launch, rejection
from varnish_gateway.ir.reserved import RELOAD_SOCKET

CHILD_RETURN_SECONDS = 10.0
COMPLAINT_SECONDS = 1.0
PORTS_SECONDS = 5.0
POLL_SECONDS = 0.005
PROBE_PATH = "/.varnish-ghost/counters"  # not a request that a route would count


class Standing(NamedTuple):
    """What became of the desired sockets and arguments. With a problem varnishd runs with the previous ones.

    ``retry`` says that another attempt costs nothing.
    """

    problem: errors.ChildExited | None = None
    retry: bool = False


class Supervisor:
    """``wake`` is called when the data plane has to do a pass.

    ``rejected`` holds sockets and arguments that varnishd does not start with. ``proxy_user`` is the user
    that connects to varnishd's Unix sockets, None for our own. ``unfenced`` says why varnishd can't be kept
    from private keys; None: it runs inside its fence.
    """

    def __init__(  # noqa: PLR0913 - each is a collaborator that tests replace
        self,
        settings: Settings,
        layout: Layout,
        admin: Admin,
        bus: events.Bus,
        wake: Callable[[], None],
        *,
        rejected: Quarantine[Command],
        proxy_user: str | None = None,
        unfenced: str | None = None,
    ) -> None:
        self._settings = settings
        self._layout = layout
        self._admin = admin
        self._bus = bus
        self._wake = wake
        self._proxy_user = proxy_user
        self._unfenced = None if unfenced is None else events.Unfenced(reason=unfenced)
        self._varnishd: Varnishd | None = None
        self._ending: Varnishd | None = None
        self._watch: asyncio.Task[None] | None = None
        self._command = Command(())
        self._former: Command | None = None  # until a worker has run with the present one
        self._rejected = rejected
        self._died_at: float | None = None
        self._deaths: list[str] = []
        self._death = asyncio.Event()
        self.launches = 0
        """How many times varnishd was started, also by a call that failed later. A new varnishd holds no VCL."""
        self.child_running = False
        self.addresses: tuple[ListenAddress, ...] = ()  # known once a worker has run

    @property
    def running(self) -> bool:
        return self._varnishd is not None and self._varnishd.running

    @property
    def sockets(self) -> tuple[Socket, ...]:
        """The sockets of the running varnishd."""
        return self._command.sockets if self.running else ()

    @property
    def reload_port(self) -> int:
        """The port of ghost's reload socket; raise ConnectionError before the first worker has opened it."""
        for address in self.addresses:
            if address.name == RELOAD_SOCKET:
                return address.port
        raise ConnectionError("varnishd's worker does not listen for reloads yet")

    @property
    def warnings(self) -> tuple[str, ...]:
        """What doesn't keep varnishd from serving, but should be known."""
        return () if self._unfenced is None else (self._unfenced.sentence,)

    @property
    def varnish_dir(self) -> Path:
        """Where varnishd keeps its counters."""
        return self._layout.varnish_dir

    @property
    def pid(self) -> int | None:
        return self._varnishd.pid if self._varnishd is not None else None

    async def ensure(self, sockets: Sockets, extra_args: tuple[str, ...] = ()) -> Standing:
        """Ensure a varnishd with these sockets and arguments; raise ChildExited if none runs at all."""
        desired = Command(sockets.of_varnishd(self._layout.work_dir, self._proxy_user), extra_args)
        if not self.running:
            return await self._relaunch(desired)
        if self._command.covers(desired):
            return Standing()
        return await self._change(desired)

    async def _relaunch(self, desired: Command) -> Standing:
        """Start with the last sockets and arguments if possible: the desired ones may not work."""
        if self._command.sockets and self._command != desired:
            with contextlib.suppress(errors.ChildExited):
                await self._launch(self._command)
                return await self._change(desired)
        await self._launch(desired)
        return Standing()

    async def _change(self, desired: Command) -> Standing:
        """Replace the running varnishd, or keep it if the new command does not work."""
        if (reason := self._rejected.reason(desired)) is not None:
            return Standing(errors.ChildExited(reason))
        before = self._command
        our_ports = {socket.port for socket in before.sockets}
        if (taken := first_taken(socket for socket in desired.sockets if socket.port not in our_ports)) is not None:
            return Standing(taken, retry=True)
        if desired.extra_args != before.extra_args and (standing := await self._rehearse(desired)) is not None:
            return standing
        what = "the listeners" if desired.sockets != before.sockets else "its arguments"
        self._bus.publish(events.Restarting(reason=f"{what} changed"))
        try:
            await self._replace(desired)
        except errors.ChildExited as problem:
            self._reject(desired, problem)
            await self._launch(before)
            return Standing(problem)
        self._former = before
        return Standing()

    async def _rehearse(self, desired: Command) -> Standing | None:
        """Have varnishd check its arguments without a start; return a Standing if it rejects them."""
        try:
            problem = await rejection(desired.extra_args)
        except errors.ChildExited as fault:
            return Standing(fault, retry=True)
        if problem is None:
            return None
        self._rejected.reject(desired, str(problem))
        return Standing(problem)

    @property
    def may_go_back(self) -> bool:
        """Whether no worker has run since sockets or arguments changed."""
        return self._former is not None

    async def go_back(self, problem: errors.ChildExited) -> Standing:
        """Return to the former command: no worker starts with the present one. Raise the problem if there is none."""
        former, self._former = self._former, None
        if former is None:
            raise problem
        self._reject(self._command, problem)
        await self._replace(former)
        return Standing(problem)

    async def _replace(self, command: Command) -> None:
        """Stop varnishd and start another one; the former worker may hold its ports a little longer."""
        await self.stop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PORTS_SECONDS):
                while in_use(command.sockets):  # noqa: ASYNC110 - a port does not say when it is free
                    await asyncio.sleep(POLL_SECONDS)
        await self._launch(command)

    def _reject(self, command: Command, problem: errors.ChildExited) -> None:
        """Quarantine a command; its problem may pass."""
        delay = self._rejected.reject(command, str(problem))
        self._bus.publish(events.Fault(reason=str(problem), retry_seconds=delay))

    async def start_child(self) -> bool:
        """Return when the worker answers requests; start it where varnishd does not do so itself.

        Return whether we started it. Raise ChildExited if it can't run at all.
        """
        is_ours = False
        try:
            async with asyncio.timeout(CHILD_RETURN_SECONDS):
                while (state := await self._worker_state()) != "running":
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
            self._rejected.clear()
            self._former = None
        if self._died_at is not None:
            self._bus.publish(events.ChildBack(seconds=time.monotonic() - self._died_at))
            self._died_at = None
        return is_ours

    async def _worker_state(self) -> ChildState:
        """Ask varnishd for its worker's state. One that exited never connects again."""
        self._check_running()
        return await self._admin.status()

    def _check_running(self) -> None:
        if not self.running:
            raise ConnectionError("varnishd exited before its worker answered")

    async def _start_child(self) -> None:
        self._death.clear()
        try:
            await self._admin.start()
        except CliError as error:
            if not (await self.worker_died() and self.running):
                raise
            raise errors.ChildExited(f"varnishd's worker does not start: {self._deaths[-1]}") from error

    async def worker_died(self) -> bool:
        """Whether the worker has died; varnishd reports it a moment later."""
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
            self._check_running()

    async def report_deaths(self) -> None:
        """Publish workers that died, with the panic that varnishd recorded."""
        while self._deaths:
            panic = await self._admin.panic_show()
            if panic is not None:
                await self._admin.panic_clear()
            self._bus.publish(events.ChildDied(reason=self._deaths.pop(0), panic=panic))

    async def close(self) -> None:
        """Stop for good."""
        self._rejected.close()
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
        if (problem := await missing_limit(command.extra_args)) is not None:
            raise problem
        argv = arguments(self._settings, self._layout, command, self._admin.port, parameters())
        argv = self._fenced(argv, command)
        self._varnishd = await launch(argv, command.sockets, self._layout, self._admin, self._on_child_gone)
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

    def _fenced(self, argv: list[str], command: Command) -> list[str]:
        """Return the command line that starts varnishd inside its fence, where this machine has one."""
        if self._unfenced is not None:
            self._bus.publish(self._unfenced)
            return argv
        self._layout.varnish_dir.mkdir(exist_ok=True)  # inside the fence varnishd can't
        sockets = (Path(socket.address) for socket in command.sockets if socket.is_unix)
        return landlock.command(fence_of(self._layout, self._settings.vcl_dirs, sockets, argv), argv)

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
            self._admin.hang_up()
            self._bus.publish(events.VarnishdExited(reason=reason))
            self._wake()

    def _on_child_gone(self, reason: str) -> None:
        if self._varnishd is None:
            return  # we are stopping it ourselves
        self.child_running = False
        self._died_at = time.monotonic()
        self._deaths.append(reason)
        self._death.set()
        self._wake()
