"""The TLS terminator: HAProxy before varnishd, kept at the newest certificates that work.

In:   TLS and ports, as often as they change.
Out:  TLS on https ports with a usable certificate, and plain ports that varnishd can't open while it runs.
      Without any of them no HAProxy runs. A port that can't be opened now is a problem of that port alone. So are
      certificates and authorities that wait for a reload: the former ones serve until then.

It works in a task of its own, so that plain listeners and their changes never wait for it.
What is rejected leaves the last good certificates serving and is retried after a while. Faults are
retried soon.
"""

import asyncio
import contextlib
import logging
import shutil
import time
from collections.abc import Callable, Mapping

from varnish_gateway import errors
from varnish_gateway.dataplane import quarantine
from varnish_gateway.dataplane.events import Bus
from varnish_gateway.dataplane.process.port_owners import TerminatorPort
from varnish_gateway.dataplane.process.ports import first_taken
from varnish_gateway.dataplane.process.workdir import Layout
from varnish_gateway.dataplane.quarantine import Quarantine
from varnish_gateway.dataplane.retry import FIRST_SECONDS, LAST_SECONDS, FaultRetry, RetryTimer
from varnish_gateway.dataplane.tls import events, haproxy, metrics
from varnish_gateway.dataplane.tls.closed import closed_ports, deferred_ports
from varnish_gateway.dataplane.tls.expiry import Expiry
from varnish_gateway.dataplane.tls.machine import addresses
from varnish_gateway.dataplane.tls.plan import TlsPlanner
from varnish_gateway.dataplane.tls.serving import HaproxyService
from varnish_gateway.ir import Tls

DAY = 86400.0
STEADY_SECONDS = 10.0
"""A HAProxy that ran this long is restarted at once when it dies; for one that dies sooner the delay grows."""

Problems = tuple[Exception, ...]
NO_TLS = Tls()

log = logging.getLogger(__name__)


def is_installed() -> bool:
    """Whether the program is there."""
    return shutil.which(haproxy.PROGRAM) is not None


class TlsTerminator:
    """start, then update as often as there is a change, then stop."""

    def __init__(self, layout: Layout, bus: Bus, drain_seconds: float = 0) -> None:
        self._bus = bus
        self._subscribers: list[Callable[[], None]] = []
        self.service = HaproxyService(layout.work_dir, bus, self._on_death, drain_seconds)
        self._planner = TlsPlanner(self.service.check, addresses)
        self._tls: Tls | None = None
        self._ports: tuple[TerminatorPort, ...] = ()
        self._postponed: asyncio.TimerHandle | None = None
        self._is_open = False
        self._is_stopping = False
        self._unserved: tuple[int, ...] = ()
        self._has_taken = False  # a later port is another process's
        self.has_tried_later = False
        """Whether it has opened ports that came later once, or found out why it can't."""
        self._work = asyncio.Event()
        self._requested = 0
        self._done = 0
        self._waiting: list[tuple[int, asyncio.Future[Problems]]] = []
        self.task: asyncio.Task[None] | None = None
        self._retry = FaultRetry(self._bus, self._work.set)
        self._restart = FaultRetry(self._bus, self._work.set)
        self._reopening = RetryTimer(self._work.set, FIRST_SECONDS, LAST_SECONDS)
        self._rejected = Quarantine[tuple[str, ...]](self._work.set, quarantine.ROUTINE)
        self._expiry = Expiry()
        self._expiry_timer: asyncio.TimerHandle | None = None
        self.problems: Problems = ()
        self.closed: Mapping[str, str] = {}
        """Sockets that should have opened while varnishd runs, and why they could not yet."""
        self.deferred: Mapping[str, str] = {}
        """Open sockets whose newest certificates or authorities wait, and until when."""
        self.in_force: Tls | None = None
        """The last TLS that was accepted as a whole; all of it serves but on closed and deferred ports."""
        self.last_good: Tls | None = None
        """What a restarted data plane needs to serve the same again; None before anything was accepted."""

    # -- from outside ----------------------------------------------------------------------

    def subscribe(self, on_change: Callable[[], None]) -> None:
        """Call ``on_change`` after every change of what serves, or of the problems."""
        self._subscribers.append(on_change)

    def start(self) -> None:
        self.task = asyncio.create_task(self._run())
        self.task.add_done_callback(self._on_ended)

    def open(self) -> None:
        """Start to serve: varnishd takes requests now."""
        if not self._is_open:
            self._is_open = True
            self._request()

    def update(self, tls: Tls | None, ports: tuple[TerminatorPort, ...]) -> None:
        """Set what should be served; return at once."""
        if (tls, ports) != (self._tls, self._ports):
            self._tls, self._ports = tls, ports
            self._request()

    def try_again(self) -> None:
        """Open ports that could not be opened: varnishd may have released them."""
        if self.problems or self.closed:
            self._request()

    async def applied(self) -> Problems:
        """Return when the desired TLS serves, or with its problems; at once while nothing can serve."""
        if self.task is not None and self.task.done():
            self.task.result()  # raises the bug that ended it
        if not self.is_busy:
            return self.problems
        done: asyncio.Future[Problems] = asyncio.get_running_loop().create_future()
        self._waiting.append((self._requested, done))
        return await done

    @property
    def is_busy(self) -> bool:
        return self._is_open and not self._is_stopping and self._done != self._requested

    @property
    def is_stopping(self) -> bool:
        """Whether it takes no new connections."""
        return self._is_stopping

    @property
    def pid(self) -> int | None:
        """The process of the terminator, None while it does not run."""
        return self.service.pid

    @property
    def ports(self) -> set[int]:
        """The ports that it serves now."""
        return self.service.plan.ports if self.service.running else set()

    @property
    def desired_ports(self) -> tuple[TerminatorPort, ...]:
        """The ports that it should serve."""
        return self._ports

    @property
    def later_sockets(self) -> tuple[str, ...]:
        """The sockets, with their addresses, that it opened while varnishd runs."""
        is_tls = {bind.port: bind.is_tls for bind in self.service.plan.binds} if self.service.running else {}
        return tuple(
            f"{port.socket.name}={port.socket.address}"
            for port in self._ports
            if port.is_later and is_tls.get(port.socket.port) == port.socket.tls
        )

    @property
    def unready_reason(self) -> str:
        """Return why there is no TLS though there are usable certificates; "" where all is well.

        A port that never served and came later doesn't count: it is one of many, and varnishd serves the others.
        """
        desired = {port.port for port in self._tls.ports if port.certificates} if self._tls is not None else set()
        desired &= {port.socket.port for port in self._ports if not port.is_later}
        if not self._is_open or self.service.running or not desired | self.service.plan.ports:
            return ""
        return "" if self._is_all_rejected else "HAProxy does not run"

    async def metrics(self) -> list[str]:
        """Return lines for /metrics; without HAProxy's counters while it does not answer."""
        rows: list[dict[str, str]] = []
        with contextlib.suppress(OSError):
            rows = await self.service.admin.frontends() if self.service.running else []
        return [*metrics.lines(rows, self._expiry.dated)]

    def finish(self) -> None:
        """Take no new connections; present ones may finish."""
        self._is_stopping = True
        self.service.finish()

    async def stop(self) -> None:
        self._is_stopping = True
        self._retry.cancel()
        self._restart.cancel()
        self._rejected.close()
        self._cancel_postponed()
        self._reopening.cancel()
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait({self.task})
        await self.service.stop()

    # -- one pass after another ------------------------------------------------------------

    @property
    def _is_all_rejected(self) -> bool:
        """Whether nothing serves because every certificate was rejected."""
        return bool(self.problems) and all(isinstance(problem, errors.TlsRejected) for problem in self.problems)

    def _request(self) -> None:
        self._requested += 1
        self._work.set()

    async def _run(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            requested = self._requested
            if self._is_stopping:
                self._answer(requested)
            if not self._is_open or self._is_stopping:
                continue
            tries_later = any(port.is_later for port in self._ports)
            try:
                problems = await self._ensure()
                self._retry_taken(problems)
                self._quarantine(tuple(one for one in problems if isinstance(one, errors.TlsRejected)))
            except (errors.GatewayError, OSError) as fault:
                problems = (fault,)
                self._retry.later(fault)
            self._done = requested
            self.has_tried_later |= tries_later
            self._conclude(problems)
            self._answer(requested)

    def _quarantine(self, rejections: Problems) -> None:
        """Retry what was rejected after a while."""
        reasons = tuple(map(str, rejections))
        if not reasons:
            self._rejected.clear()
        elif self._rejected.reason(reasons) is None:
            self._rejected.reject(reasons, "; ".join(reasons))

    def _answer(self, requested: int) -> None:
        """Resolve the waits for requests up to this one."""
        for number, done in self._waiting:
            if number <= requested and not done.cancelled():
                done.set_result(self.problems)
        self._waiting = [(number, done) for number, done in self._waiting if number > requested]

    def _on_ended(self, task: asyncio.Task[None]) -> None:
        """Leave no ``applied`` waiting: a bug reaches its caller, a stop cancels it."""
        bug = None if task.cancelled() else task.exception()
        if bug is not None:
            log.critical(
                "a bug ended the task that supervises HAProxy; no change of TLS is applied any more", exc_info=bug
            )
        for _, done in self._waiting:
            if bug is None or done.cancelled():
                done.cancel()
            else:
                done.set_exception(bug)
        self._waiting = []

    def _conclude(self, problems: Problems) -> None:
        before = set(map(str, self.problems))
        rejected = [str(one) for one in problems if isinstance(one, errors.TlsRejected) and str(one) not in before]
        self.problems = problems
        if rejected:
            self._bus.publish(events.TlsFailed(reasons=tuple(rejected)))
        unserved = tuple(
            socket.port
            for socket, _ in self._ports
            if socket.tls and socket.port not in self.ports and socket.name not in self.closed
        )
        if unserved and unserved != self._unserved and not problems:
            self._bus.publish(events.PortsUnserved(ports=unserved))
        self._unserved = unserved
        self._notify()

    async def _ensure(self) -> Problems:
        """Make what is desired serve; return the problems."""
        if self._tls is None and not self.service.plan.binds and all(port.socket.tls for port in self._ports):
            return ()
        fault = await self._relaunch()
        tls, ports, service = self._tls, self._ports, self.service
        taken = self._taken(ports, tls or NO_TLS)
        usable = tuple(port for port in ports if port.socket.name not in taken)
        desired, rejected = self._planner.plan(tls or NO_TLS, usable, service.plan)
        wait, possible = service.postponed(desired)
        self._postpone(wait)
        problems: list[Exception] = [*rejected]
        if possible != service.plan or service.is_mixed:
            try:
                await service.change(possible, ports)
            except errors.TlsRejected as rejection:
                problems.append(rejection)
            self._expiry.update(service.plan)
            self._check_expiry()
        if fault is not None and service.plan.binds and not service.running:
            raise fault
        problems += [taken[port.socket.name] for port in ports if port.socket.name in taken and not port.is_later]
        self.closed = closed_ports(ports, desired, service.plan, {name: str(why) for name, why in taken.items()}, wait)
        self.deferred = deferred_ports(ports, desired, service.plan, wait)
        self._has_taken = any(name in taken for name in self.closed)
        self._accept(tls, is_whole=not problems)
        return tuple(problems)

    def _taken(self, ports: tuple[TerminatorPort, ...], tls: Tls) -> dict[str, errors.ChildExited]:
        """Return the sockets to open of which another process has the port, and why."""
        is_open, with_certificate = self.ports, {port.port for port in tls.ports if port.certificates}
        opening = [
            socket
            for socket, _ in ports
            if socket.port not in is_open and (not socket.tls or socket.port in with_certificate)
        ]
        found = {socket.name: first_taken([socket]) for socket in opening}
        return {name: problem for name, problem in found.items() if problem is not None}

    def _accept(self, tls: Tls | None, *, is_whole: bool) -> None:
        """Remember what a restart needs."""
        if is_whole and tls is not None:
            self.in_force = tls
            self.last_good = self.service.plan.tls if self.deferred else tls
        elif self.service.plan.binds and not is_whole:
            self.last_good = self.service.plan.tls

    def _postpone(self, wait: float) -> None:
        """Work again after the wait, if there is one."""
        self._cancel_postponed()
        if wait:
            self._postponed = asyncio.get_running_loop().call_later(wait, self._work.set)

    def _cancel_postponed(self) -> None:
        if self._postponed is not None:
            self._postponed.cancel()
            self._postponed = None

    def _retry_taken(self, problems: Problems) -> None:
        """Try again soon to open the ports that another process has."""
        taken = next((one for one in problems if isinstance(one, errors.ChildExited)), None)
        if taken is not None:
            self._retry.later(taken)
        else:
            self._retry.reset()
        if self._has_taken:
            self._reopening.schedule()
        else:
            self._reopening.reset()

    async def _relaunch(self) -> errors.ChildExited | None:
        """Ensure a HAProxy with its last plan; return why that fails, for the desired plan may work."""
        try:
            await self.service.relaunch()
        except errors.ChildExited as fault:
            return fault
        return None

    def _notify(self) -> None:
        for on_change in self._subscribers:
            on_change()

    def _on_death(self, seconds: float) -> None:
        if seconds < STEADY_SECONDS:
            self._restart.later(errors.ChildExited(f"HAProxy died {seconds:.1f} s after its start"))
        else:
            self._restart.reset()
            self._work.set()
        self._notify()

    def _check_expiry(self) -> None:
        """Publish certificates that have expired, now and whenever the next one does."""
        now = time.time()
        for one in self._expiry.newly_expired(now):
            self._bus.publish(events.CertificateExpired(names=one.names, port=one.port))
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
        following = self._expiry.next(now)
        if following is not None:
            delay = min(following - now, DAY)  # clocks are set, too
            self._expiry_timer = asyncio.get_running_loop().call_later(delay, self._check_expiry)
