"""The TLS terminator: HAProxy before varnishd, kept at the newest certificates that work.

In:   TLS and https sockets, as often as they change.
Out:  TLS on their ports. Without a usable certificate no HAProxy runs.

It works in a task of its own, so that plain listeners and their changes never wait for it.
What is rejected leaves the last good certificates serving and is retried after a while. Faults are
retried soon.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from varnish_gateway import errors
from varnish_gateway.dataplane import quarantine
from varnish_gateway.dataplane.events import Bus
from varnish_gateway.dataplane.process.sockets import Socket
from varnish_gateway.dataplane.process.workdir import Layout
from varnish_gateway.dataplane.quarantine import Quarantine
from varnish_gateway.dataplane.retry import FaultRetry
from varnish_gateway.dataplane.tls import events, metrics
from varnish_gateway.dataplane.tls.expiry import Expiry
from varnish_gateway.dataplane.tls.machine import addresses
from varnish_gateway.dataplane.tls.plan import TlsPlanner
from varnish_gateway.dataplane.tls.serving import HaproxyService
from varnish_gateway.ir import Tls

DAY = 86400.0
STEADY_SECONDS = 10.0
"""A HAProxy that ran this long is restarted at once when it dies; for one that dies sooner the delay grows."""

Problems = tuple[Exception, ...]

log = logging.getLogger(__name__)


class TlsTerminator:
    """start, then update as often as there is a change, then stop."""

    def __init__(self, layout: Layout, bus: Bus, drain_seconds: float = 0) -> None:
        self._bus = bus
        self._subscribers: list[Callable[[], None]] = []
        self.service = HaproxyService(layout.work_dir, bus, self._on_death, drain_seconds)
        self._planner = TlsPlanner(self.service.check, addresses)
        self._tls: Tls | None = None
        self._sockets: tuple[Socket, ...] = ()
        self._is_open = False
        self._is_stopping = False
        self._unserved: tuple[int, ...] = ()
        self._work = asyncio.Event()
        self._requested = 0
        self._done = 0
        self._waiting: list[tuple[int, asyncio.Future[Problems]]] = []
        self.task: asyncio.Task[None] | None = None
        self._retry = FaultRetry(self._bus, self._work.set)
        self._restart = FaultRetry(self._bus, self._work.set)
        self._rejected = Quarantine[tuple[str, ...]](self._work.set, quarantine.ROUTINE)
        self._expiry = Expiry()
        self._expiry_timer: asyncio.TimerHandle | None = None
        self.problems: Problems = ()
        self.in_force: Tls | None = None
        """The last TLS that was accepted as a whole."""
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

    def update(self, tls: Tls | None, sockets: tuple[Socket, ...]) -> None:
        """Set what should be served; return at once."""
        if (tls, sockets) != (self._tls, self._sockets):
            self._tls, self._sockets = tls, sockets
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
        """The ports on which it terminates TLS now."""
        return self.service.plan.ports if self.service.running else set()

    @property
    def unready_reason(self) -> str:
        """Return why there is no TLS though there are usable certificates; "" where all is well."""
        desired = {port.port for port in self._tls.ports if port.certificates} if self._tls is not None else set()
        if not self._is_open or self.service.running or not desired & {socket.port for socket in self._sockets}:
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
            try:
                problems = await self._ensure()
                self._retry.reset()
                self._quarantine(problems)
            except (errors.GatewayError, OSError) as fault:
                problems = (fault,)
                self._retry.later(fault)
            self._done = requested
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
        new = [str(problem) for problem in problems if str(problem) not in set(map(str, self.problems))]
        self.problems = problems
        if new and isinstance(problems[0], errors.TlsRejected):
            self._bus.publish(events.TlsFailed(reasons=tuple(new)))
        unserved = tuple(socket.port for socket in self._sockets if socket.port not in self.ports)
        if unserved and unserved != self._unserved and not problems:
            self._bus.publish(events.PortsUnserved(ports=unserved))
        self._unserved = unserved
        self._notify()

    async def _ensure(self) -> Problems:
        """Make the desired TLS serve; return what was rejected."""
        if self._tls is None:
            return ()
        fault = await self._relaunch()
        tls, service = self._tls, self.service
        desired, problems = self._planner.plan(tls, self._sockets, service.plan)
        if desired != service.plan or service.is_mixed:
            try:
                await service.change(desired, self._sockets)
            except errors.TlsRejected as rejection:
                problems.append(rejection)
            self._expiry.update(service.plan)
            self._check_expiry()
        if fault is not None and service.plan.binds and not service.running:
            raise fault
        if not problems:
            self.in_force = self.last_good = tls
        elif service.plan.binds:
            self.last_good = service.plan.tls
        return tuple(problems)

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
