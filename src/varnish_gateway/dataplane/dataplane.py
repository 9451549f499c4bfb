"""One data plane: varnishd with ghost and a TLS terminator, kept at the newest configuration that works.

In:   Changes: VCL, sockets, arguments, routing shards, EndpointSlices (or a ready-made Bundle), TLS.
Out:  traffic. Each ``apply`` returns once its change serves, or with the problems that keep it from serving.

One task works in passes. A pass applies everything that arrived since the last one, so a burst becomes
one reload and the newest state wins. Whatever fails, the last good configuration keeps serving.
Faults are retried soon; what was rejected is retried when it changes, and after a while. The TLS
terminator has its own task, so that neither waits for the other.
"""

import asyncio
import logging
from collections.abc import Callable

from varnish_gateway.dataplane import events
from varnish_gateway.dataplane.change import Change, InForce, Outcome, ServingState
from varnish_gateway.dataplane.collaborators import Collaborators
from varnish_gateway.dataplane.ghost import invalidation as on_reload_socket
from varnish_gateway.dataplane.passes import Passes
from varnish_gateway.dataplane.process.port_owners import TerminatorPort
from varnish_gateway.dataplane.settings import Settings
from varnish_gateway.dataplane.varnish.vcl import digest
from varnish_gateway.emit.tls import tls_hash
from varnish_gateway.ir.capabilities import ALL, LATER_PORTS
from varnish_gateway.ir.inspection import Stored
from varnish_gateway.ir.invalidation import Invalidation

log = logging.getLogger(__name__)


class DataPlane:
    """start, then apply as often as there is a change, then stop."""

    def __init__(self, settings: Settings, collaborators: Collaborators) -> None:
        self.settings = settings
        self.bus = collaborators.bus
        self.admin = collaborators.admin
        self.supervisor = collaborators.supervisor
        self.terminator = collaborators.terminator
        self._desired = collaborators.desired
        self._work = collaborators.work
        self._vcl = collaborators.vcl
        self._ghost = collaborators.ghost
        self._resolver = collaborators.resolver
        self._sleep, self._until_idle = collaborators.sleep, collaborators.until_idle
        self._clock = collaborators.clock
        self._passes = Passes(collaborators)
        self._task: asyncio.Task[None] | None = None
        self._waiting: list[asyncio.Future[Outcome]] = []
        self._on_in_force: Callable[[InForce], None] | None = None
        self._generation: str | None = None
        self._published = (False, False)  # readiness, and whether the newest configuration serves
        self._was_ready = False
        self._ports: tuple[set[str], set[str]] = (set(), set())  # closed and deferred ones, as published
        self.terminator.subscribe(self._conclude)

    def on_in_force(self, save: Callable[[InForce], None]) -> None:
        """Call ``save`` whenever the configuration in force may have changed."""
        self._on_in_force = save

    async def start(self) -> None:
        """Start varnishd; raise ChildExited if it can't be started with these settings."""
        await self.admin.listen(self.settings.admin_port)
        self._ghost.write(self._desired.bundle)
        await self.supervisor.ensure(self._desired.sockets, self._desired.extra_args)
        self.run()

    def run(self) -> None:
        """Start the tasks; ``start`` has started varnishd before."""
        self.terminator.start()
        self._task = asyncio.create_task(self._run_passes())
        self._task.add_done_callback(self._on_passes_ended)

    async def apply(self, change: Change) -> Outcome:
        """Apply a change; return when it serves, or with the problems that keep it from serving."""
        for task in self._tasks:
            if task.done():
                task.result()  # raises the bug that ended it: nothing would apply this change
        self._desired.update(change)
        if change.routing:
            self._resolver.follow(self._desired.external_hosts)
        done = self._request_pass()
        if not change.opens_ports or not self.terminator.desired_ports:  # else one reload would become two
            self.terminator.update(self._desired.tls, self._ports_at_once())
        outcome = await done
        if change.opens_ports:
            self.terminator.update(self._desired.tls, self._desired.ports.terminator)
            self.terminator.try_again()
        if change.affects_terminator:
            await self.terminator.applied()
        return Outcome(outcome.problems + self.terminator.problems, self.terminator.closed)

    def _request_pass(self) -> asyncio.Future[Outcome]:
        """Return the outcome of a pass that begins after this call."""
        done: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting.append(done)
        self._work.set()
        return done

    def _ports_at_once(self) -> tuple[TerminatorPort, ...]:
        """Return the ports of the TLS terminator before a pass.

        A port that opens while varnishd runs comes after it: ghost knows its listeners then, and varnishd has given
        up what it needs.
        """
        present = {port.socket.port: port for port in self.terminator.desired_ports}
        changed = (
            port if not port.is_later else present.get(port.socket.port) for port in self._desired.ports.terminator
        )
        return tuple(port for port in changed if port is not None)

    async def broken(self) -> None:
        """Wait for a bug that ends one of the tasks, and raise it. The program can only exit."""
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    @property
    def is_running(self) -> bool:
        """Whether the tasks were started."""
        return self._task is not None

    @property
    def _tasks(self) -> list[asyncio.Task[None]]:
        return [task for task in (self._task, self.terminator.task) if task is not None]

    async def stop(self, drain_seconds: float | None = None) -> None:
        """Become unready, let connections finish, stop varnishd."""
        try:
            await self.drain(self.settings.drain_seconds if drain_seconds is None else drain_seconds)
        finally:
            await self.stop_passes()
            await self._resolver.close()
            await self.terminator.stop()
            await self.supervisor.close()
            await self.admin.close()
            if self.is_running:
                self.bus.publish(events.Stopped())

    async def stop_passes(self) -> None:
        """Stop the task that works in passes; cancel every ``apply`` that waits for it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        self._passes.close()

    async def drain(self, seconds: float) -> None:
        """Become unready, ask clients to leave, and wait until none is connected.

        Clients may still connect until every load balancer has noticed. Waiting for a pass counts, too: Kubernetes
        kills a pod that takes longer than it was granted.
        """
        end = self._clock() + seconds
        self.start_draining()
        if seconds > 0 and await self._has_worker(seconds):
            left = max(end - self._clock(), 0.0)
            self.bus.publish(events.Draining(seconds=round(left, 1)))
            await self._sleep(min(self.settings.drain_delay_seconds, left))
            ports = {address.port for address in self.supervisor.addresses} - {0, self.supervisor.reload_port}
            ports |= self.terminator.ports
            self.terminator.finish()
            await self._until_idle(ports, max(end - self._clock(), 0.0))

    async def _has_worker(self, seconds: float) -> bool:
        """Whether a worker runs. One that a pass starts may have clients before that pass ends."""
        is_starting = self.supervisor.running and not self.supervisor.child_running
        if is_starting and self._task is not None and not self._task.done():
            await asyncio.wait({self._request_pass()}, timeout=seconds)
        return self.supervisor.child_running

    def start_draining(self) -> None:
        """Become unready; the next pass has ghost end each kept connection with its next response."""
        self._desired.is_draining = True
        self._publish_readiness()
        self._work.set()

    @property
    def in_force(self) -> InForce | None:
        """The last good configuration, None if there is none yet."""
        if self._ghost.last_good is None or self._vcl.last_good is None:
            return None
        return InForce(self._vcl.last_good, self._ghost.last_good, self._generation, self.terminator.last_good)

    @property
    def served(self) -> ServingState:
        reason = self._unready_reason()
        bundle, vcl, tls, problems = (
            self._ghost.last_good,
            self._vcl.last_good,
            self.terminator.in_force,
            self._problems,
        )
        return ServingState(
            ready=not reason,
            reason=reason,
            configuration=bundle.id if bundle else None,
            vcl=digest(vcl) if vcl is not None and self._vcl.active else None,
            generation=self._generation,
            sockets=(
                *(f"{name}={address}:{port}" for name, address, port in self.supervisor.addresses),
                *self.terminator.later_sockets,
            ),
            tls=tls_hash(tls) if tls is not None else None,
            up_to_date=not problems and not self._waiting and not self.terminator.is_busy,
            problems=tuple(map(str, problems)),
            warnings=self.supervisor.warnings + self._unused_ports,
            unserved=self._desired.unserved,
            closed=self.terminator.closed,
            deferred=self.terminator.deferred,
            capabilities=tuple(sorted(ALL if self._desired.ports.opens_later else ALL - {LATER_PORTS.name})),
        )

    @property
    def _unused_ports(self) -> tuple[str, ...]:
        """A warning about ports that varnishd keeps though no listener has them."""
        unused = [str(socket.port) for socket in self._desired.ports.unused if socket.port]
        if not unused:
            return ()
        return (f"varnishd keeps port {', '.join(unused)} open without a listener, and answers 404, until it restarts",)

    @property
    def _problems(self) -> tuple[Exception, ...]:
        return self._passes.outcome.problems + self.terminator.problems

    # -- invalidation ------------------------------------------------------------------

    @property
    def may_hold_objects(self) -> bool:
        """Whether a worker of varnishd has run with a VCL; without one nothing is stored."""
        return self._vcl.active is not None

    async def invalidate(self, invalidation: Invalidation, client: str) -> tuple[int, ...]:
        """Invalidate for a client; return how many objects each target hit. Raise BadDocument or OSError."""
        objects = await on_reload_socket.invalidate(self.supervisor.reload_port, invalidation)
        done = events.Invalidated(
            client=client, mode=invalidation.mode, targets=len(invalidation.targets), objects=sum(objects)
        )
        self.bus.publish(done)
        return objects

    async def check(self, invalidation: Invalidation) -> None:
        """Raise BadDocument where ghost would not carry it out, OSError where that isn't known."""
        await on_reload_socket.check(self.supervisor.reload_port, invalidation)

    async def inspect(self, invalidation: Invalidation) -> Stored:
        """Return what the invalidation of a URI would hit; raise BadDocument or OSError."""
        return await on_reload_socket.inspect(self.supervisor.reload_port, invalidation)

    # -- the task ----------------------------------------------------------------------

    async def _run_passes(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            included, generation = len(self._waiting), self._desired.generation
            outcome = await self._passes.run()
            waiting, self._waiting = self._waiting[:included], self._waiting[included:]
            if outcome.serves and self._vcl.active:
                self._generation = generation
            self._conclude()
            for done in waiting:
                if not done.cancelled():
                    done.set_result(outcome)

    def _on_passes_ended(self, task: asyncio.Task[None]) -> None:
        """Leave no ``apply`` waiting: a bug reaches its caller, a stop cancels it."""
        bug = None if task.cancelled() else task.exception()
        if bug is not None:
            log.critical("a bug ended the task that supervises varnishd; no change is applied any more", exc_info=bug)
        for done in self._waiting:
            if done.cancelled():
                continue
            if bug is None:
                done.cancel()
            else:
                done.set_exception(bug)
        self._waiting = []

    # -- readiness ---------------------------------------------------------------------

    def _unready_reason(self) -> str:
        if self._desired.is_draining:
            return "draining"
        if not self.supervisor.running:
            return "varnishd does not run"
        if self._vcl.active is None:
            return "no VCL is in use"
        if not self.supervisor.child_running:
            return "varnishd's worker does not run"
        if self._has_untried_ports:
            return "ports of its listeners are not open yet"
        return self.terminator.unready_reason

    @property
    def _has_untried_ports(self) -> bool:
        """Whether it starts, and the TLS terminator has not tried yet to open the ports that varnishd leaves to it.

        Clients that the Service sends to such a port would be refused until then. A port that can't be opened keeps
        no data plane from being ready, and neither does one that comes while it is.
        """
        if self._was_ready or self.terminator.has_tried_later:
            return False
        return any(port.is_later for port in self._desired.ports.terminator)

    def _conclude(self) -> None:
        """After a pass, or a change of the TLS terminator: publish what changed and save what is in force."""
        self._publish_readiness()
        closed, deferred = self.terminator.closed, self.terminator.deferred
        if (set(closed), set(deferred)) != self._ports:
            self._ports = set(closed), set(deferred)
            self.bus.publish(events.PortsChanged(closed=closed, deferred=deferred))
        if self._on_in_force is not None and (in_force := self.in_force) is not None:
            self._on_in_force(in_force)

    def _publish_readiness(self) -> None:
        """Publish when readiness changed, or when problems with the newest configuration came or went."""
        reason = self._unready_reason()
        self._was_ready = self._was_ready or not reason
        up_to_date = not self._problems
        if reason and not self._published[0] and (self.terminator.is_busy or self._has_untried_ports):
            return  # the TLS terminator publishes its result in a moment
        if (not reason, up_to_date) != self._published:
            self._published = (not reason, up_to_date)
            self.bus.publish(events.Ready(ready=not reason, reason=reason, up_to_date=up_to_date))
