"""One data plane: varnishd with ghost, kept at the newest configuration that works.

In:   Changes: VCL, sockets, arguments, routing shards, EndpointSlices (or a ready-made Bundle), TLS.
Out:  traffic. Each ``apply`` returns once its change serves, or with what stands against it.

One task does all the work in passes; a pass takes everything that was asked for since the
last one, so bursts become one reload and the newest state wins. Whatever fails, the last
good configuration goes on serving. Where the world is at fault it is tried again soon; what was
refused is tried again when it changes, and after a while, as it may have been the moment. TLS in
front has a task of its own, so that neither waits for the other.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping

from varnish_gateway import errors
from varnish_gateway.dataplane import events
from varnish_gateway.dataplane.change import Change, InForce, Outcome, Served
from varnish_gateway.dataplane.desired import Wanted
from varnish_gateway.dataplane.ghost.reload import Installer
from varnish_gateway.dataplane.ghost.resolve import Resolver
from varnish_gateway.dataplane.process import drain
from varnish_gateway.dataplane.process.workdir import prepare
from varnish_gateway.dataplane.retry import Retry
from varnish_gateway.dataplane.settings import Settings
from varnish_gateway.dataplane.tls.terminator import Front
from varnish_gateway.dataplane.varnish.cli import Admin
from varnish_gateway.dataplane.varnish.supervisor import Supervisor
from varnish_gateway.dataplane.varnish.vcl import KEPT_VCLS, VclLoader, digest
from varnish_gateway.emit.routing import content_hash
from varnish_gateway.emit.tls import encode_tls

log = logging.getLogger(__name__)


class DataPlane:
    """start, then apply as often as there is a change, then stop."""

    def __init__(self, settings: Settings, bus: events.Bus | None = None) -> None:
        self.settings = settings
        self.bus = bus or events.Bus()
        self._layout = prepare(settings)
        self._admin = Admin(self._layout.secret)
        self._wanted = Wanted(settings.sockets, settings.extra_args)
        self._work = asyncio.Event()
        self._installer = Installer(self._layout.ghost_config_path, self._work.set)
        self._vcl = VclLoader(self._admin, self._layout.vcl_dir, self._work.set)
        self.supervisor = Supervisor(settings, self._layout, self._admin, self.bus, self._work.set)
        self._launches = 0  # of which the VCL knows
        self.front = Front(self._layout, self.bus, self._conclude, settings.drain_seconds)
        self._resolver = Resolver(self._take_addresses)
        self._waiting: list[asyncio.Future[Outcome]] = []
        self._passes: asyncio.Task[None] | None = None
        self._outcome = Outcome()
        self._retry = Retry(self.bus, self._work.set)
        self._keep: Callable[[InForce], None] | None = None
        self._generation: str | None = None
        self._draining = False
        self._told = (False, False)

    @property
    def admin(self) -> Admin:
        return self._admin

    def keep_with(self, keep: Callable[[InForce], None]) -> None:
        """Have what is in force kept, by a call whenever it may have become another."""
        self._keep = keep

    async def start(self) -> None:
        """Start varnishd; raise ChildExited if it can't be started as told."""
        await self._admin.listen(self.settings.admin_port)
        self._installer.write(self._wanted.bundle())
        await self.supervisor.ensure(self._wanted.sockets, self._wanted.extra_args)
        self.front.start()
        self._passes = asyncio.create_task(self._pass_forever())
        self._passes.add_done_callback(self._passes_ended)

    async def apply(self, change: Change) -> Outcome:
        """Take a change in; return when it serves, or with what stands against it."""
        for task in self._tasks:
            if task.done():
                task.result()  # raises the bug of ours that ended it: nobody would do the work
        self._wanted.take(change)
        if change.routing:
            self._resolver.want(self._wanted.join.external_hosts)
        done: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting.append(done)
        self._work.set()
        self.front.want(self._wanted.tls, self._wanted.sockets.tls)
        outcome = await done
        if change.tls is None and change.sockets is None:
            return Outcome(outcome.problems + self.front.problems)  # nobody else waits for HAProxy
        return Outcome(outcome.problems + await self.front.settled())

    async def broken(self) -> None:
        """Wait for a bug of ours that ends one of the tasks, and raise it; whoever runs us can only end."""
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    @property
    def _tasks(self) -> list[asyncio.Task[None]]:
        return [task for task in (self._passes, self.front.task) if task is not None]

    async def stop(self, drain_seconds: float | None = None) -> None:
        """Go unready, let connections end, stop varnishd."""
        try:
            await self.drain(self.settings.drain_seconds if drain_seconds is None else drain_seconds)
        finally:
            await self._end_passes()
            await self._resolver.close()
            await self.front.stop()
            await self.supervisor.close()
            await self._admin.close()
            self.bus.publish(events.Stopped())

    async def drain(self, seconds: float) -> None:
        """Say that we are not ready any more and wait until nobody is connected.

        New connections are expected for as long as it takes until everybody knows.
        """
        self.start_draining()
        if seconds > 0 and self.supervisor.child_running:
            self.bus.publish(events.Draining(seconds=seconds))
            delay = min(self.settings.drain_delay_seconds, seconds)
            await asyncio.sleep(delay)
            ports = {address.port for address in self.supervisor.addresses} - {0, self.supervisor.reload_port}
            ports |= self.front.ports
            self.front.finish()
            await drain.until_idle(ports, seconds - delay)

    def start_draining(self) -> None:
        self._draining = True
        self._tell_readiness()

    @property
    def in_force(self) -> InForce | None:
        """What was accepted last, None as long as nothing was."""
        if self._installer.good is None or self._vcl.good is None:
            return None
        return InForce(self._vcl.good, self._installer.good, self._generation, self.front.good)

    @property
    def served(self) -> Served:
        reason = self._unready_reason()
        good, tls, problems = self._installer.good, self.front.in_force, self._problems
        return Served(
            ready=not reason,
            reason=reason,
            configuration=good.id if good else None,
            vcl=digest(self._vcl.good) if self._vcl.good is not None and self._vcl.active else None,
            generation=self._generation,
            sockets=tuple(f"{name}={address}:{port}" for name, address, port in self.supervisor.addresses),
            tls=content_hash(encode_tls(tls)) if tls is not None else None,
            up_to_date=not problems and not self._waiting and not self.front.is_busy,
            problems=tuple(map(str, problems)),
        )

    @property
    def _problems(self) -> tuple[Exception, ...]:
        return self._outcome.problems + self.front.problems

    # -- passes ------------------------------------------------------------------------

    async def _pass_forever(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            taken, generation = len(self._waiting), self._wanted.generation
            self._outcome = await self._pass()
            waiting, self._waiting = self._waiting[:taken], self._waiting[taken:]
            if self._outcome.serves and self._vcl.active:
                self._generation = generation
            self._conclude()
            for done in waiting:
                if not done.cancelled():
                    done.set_result(self._outcome)

    def _passes_ended(self, passes: asyncio.Task[None]) -> None:
        """Let nobody wait for ever: a bug of ours reaches whoever applied, a stop cancels them."""
        bug = None if passes.cancelled() else passes.exception()
        if bug is not None:
            log.critical("a bug ended what keeps varnishd: no change is taken any more", exc_info=bug)
        for done in self._waiting:
            if done.cancelled():
                continue
            if bug is None:
                done.cancel()
            else:
                done.set_exception(bug)
        self._waiting = []

    async def _end_passes(self) -> None:
        self._retry.cancel()
        if self._passes is not None:
            self._passes.cancel()
            await asyncio.wait({self._passes})
        self._vcl.close()
        self._installer.close()

    async def _pass(self) -> Outcome:
        """Do whatever is needed for what is wanted now; what was good serves before anything else is tried."""
        try:
            sockets = await self._keep_varnishd()
            problems = [sockets, *await self._keep_configuration()]
            if self._vcl.active is not None:
                await self._keep_worker()
        except (errors.GatewayError, OSError) as fault:
            self._retry.later(fault)
            return Outcome((fault,))
        if self._vcl.active is None and self._vcl.good is not None:
            self._retry.later(errors.ChildExited("varnishd refuses every VCL, also the one that was good"))
        elif sockets is None:
            self._retry.begin_anew()
        return Outcome(tuple(problem for problem in problems if problem is not None))

    async def _keep_varnishd(self) -> errors.GatewayError | None:
        """Have a varnishd with the wanted sockets and arguments, where what was good serves.

        Return why it still has the previous ones.
        """
        standing = await self.supervisor.ensure(self._wanted.sockets, self._wanted.extra_args)
        if standing.problem is not None and standing.retry:
            self._retry.later(standing.problem)
        self._meet_varnishd()
        await self.supervisor.report_deaths()
        try:
            await self._serve_last_good()
        except errors.ChildExited as problem:
            if self._wants_news and not self.supervisor.may_go_back:
                return standing.problem  # news may be the cure
            standing = await self.supervisor.go_back(problem)
            self._meet_varnishd()
            await self._serve_last_good()
        return standing.problem

    def _meet_varnishd(self) -> None:
        """Know that another varnishd holds no VCL."""
        if self._launches != self.supervisor.launches:
            self._launches = self.supervisor.launches
            self._vcl.forget()

    async def _serve_last_good(self) -> None:
        """Where no worker runs, start one with what was good, if there is such; raise ChildExited if it can't."""
        if self._vcl.good is None or self.supervisor.child_running:
            return
        self._installer.restore()
        self._vcl.forgive(self._vcl.good)
        try:
            await self._use(self._vcl.good)
        except errors.VclRejected as refusal:
            raise errors.ChildExited(f"varnishd refuses a VCL that was good: {refusal}") from refusal
        await self._keep_worker()

    @property
    def _wants_news(self) -> bool:
        """Whether something other than what was good is wanted."""
        good = self._installer.good
        return good is None or good.id != self._wanted.bundle().id or self._vcl.good != self._wanted.vcl

    async def _keep_worker(self) -> None:
        """Have a worker run; what it runs with is good."""
        if self.supervisor.child_running or not await self.supervisor.start_child():
            await self._installer.have_read(self.supervisor.reload_port)  # it may have begun before the last write
        self._vcl.accepted()
        self._installer.accepted()
        self.front.open()

    async def _use(self, text: str) -> str | None:
        """Put a VCL in use; return its new name, None if there was nothing to do."""
        name = await self._vcl.put_in_use(text)
        if name is not None:
            # Without a worker no request is under way, and one that starts would need them all to be sound.
            await self._vcl.discard_old(KEPT_VCLS if self.supervisor.child_running else 0)
        return name

    async def _keep_configuration(self) -> tuple[errors.GatewayError | None, errors.GatewayError | None]:
        """Put the wanted configuration and the wanted VCL in force; return what ghost and varnishd have against it."""
        before = self._vcl.active
        ghost, vcl = await self._keep_ghost(), await self._keep_vcl()
        if ghost is not None and self._vcl.active != before:
            self._installer.forgive()  # it may have been the VCL of before
            ghost = await self._keep_ghost()
        return ghost, vcl

    async def _keep_ghost(self) -> errors.GatewayError | None:
        """Put the wanted configuration in force; without a worker it only goes to disk."""
        bundle = self._wanted.bundle()
        started = time.monotonic()
        if not self.supervisor.child_running:
            if self._installer.write(bundle):
                self._vcl.forgive()
            return None
        try:
            if await self._installer.install(bundle, self.supervisor.reload_port):
                self.bus.publish(events.Reloaded(id=bundle.id, seconds=time.monotonic() - started))
        except errors.ReloadRefused as refusal:
            self._publish_once(refusal, events.ReloadFailed(id=bundle.id, reason=str(refusal)))
            return refusal
        except ConnectionError:
            if await self.supervisor.worker_died():
                self._installer.blame(bundle)
            raise
        return None

    async def _keep_vcl(self) -> errors.GatewayError | None:
        text, started = self._wanted.vcl, time.monotonic()
        if text is None:
            return None
        try:
            name = await self._use(text)
        except errors.VclRejected as refusal:
            serving = self.supervisor.child_running
            self._publish_once(refusal, events.VclFailed(reason=str(refusal), serving=serving))
            return refusal
        if name is not None:
            self.bus.publish(events.VclLoaded(name=name, digest=digest(text), seconds=time.monotonic() - started))
        return None

    # -- what happens around passes ----------------------------------------------------

    def _publish_once(self, refusal: errors.GatewayError, event: events.Event) -> None:
        """Publish event, unless the refusal still stands from the last pass and so is no news."""
        if str(refusal) not in {str(problem) for problem in self._outcome.problems}:
            self.bus.publish(event)

    def _take_addresses(self, resolved: Mapping[str, tuple[str, ...]]) -> None:
        self._wanted.resolve(resolved)
        self._work.set()

    def _unready_reason(self) -> str:
        if self._draining:
            return "draining"
        if not self.supervisor.running:
            return "varnishd does not run"
        if self._vcl.active is None:
            return "no VCL is in use"
        if not self.supervisor.child_running:
            return "varnishd's worker does not run"
        return self.front.unready_reason

    def _conclude(self) -> None:
        """Tell how it stands after a pass, or after one of the front, and have what is in force kept."""
        self._tell_readiness()
        if self._keep is not None and (in_force := self.in_force) is not None:
            self._keep(in_force)

    def _tell_readiness(self) -> None:
        """Publish when readiness is another one, or what stands against the newest configuration came or went."""
        reason = self._unready_reason()
        up_to_date = not self._problems
        if reason and not self._told[0] and self.front.is_busy:
            return  # it is about to say how that ends
        if (not reason, up_to_date) != self._told:
            self._told = (not reason, up_to_date)
            self.bus.publish(events.Ready(ready=not reason, reason=reason, up_to_date=up_to_date))
