"""Keeps HAProxy in front of varnishd at the newest certificates that work.

In:   TLS and https sockets, as often as they change.
Out:  TLS on their ports. Where there is no certificate, no HAProxy runs.

A task of its own does the work, so that plain listeners and their changes never wait for it.
Whatever is refused, what served before goes on. What fails for the world's sake is tried again
by itself; so is what was refused, though not soon.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from varnish_gateway import errors
from varnish_gateway.dataplane.events import Bus
from varnish_gateway.dataplane.process.sockets import Socket
from varnish_gateway.dataplane.process.workdir import Layout
from varnish_gateway.dataplane.quarantine import Refused
from varnish_gateway.dataplane.retry import Retry
from varnish_gateway.dataplane.tls import events, metrics
from varnish_gateway.dataplane.tls.expiry import Expiry
from varnish_gateway.dataplane.tls.machine import addresses
from varnish_gateway.dataplane.tls.plan import Planner
from varnish_gateway.dataplane.tls.serving import Serving
from varnish_gateway.ir import Tls

DAY = 86400.0
STEADY_SECONDS = 10.0
"""A HAProxy that lasted this long is started at once when it dies; one that dies sooner, ever later."""

Problems = tuple[Exception, ...]

log = logging.getLogger(__name__)


class Front:
    """start, then want as often as there is a change, then stop. ``tell`` is called when something is different."""

    def __init__(self, layout: Layout, bus: Bus, tell: Callable[[], None], drain_seconds: float = 0) -> None:
        self._bus = bus
        self._tell = tell
        self.serving = Serving(layout.work_dir, bus, self._take_death, drain_seconds)
        self._planner = Planner(self.serving.check, addresses)
        self._tls: Tls | None = None
        self._sockets: tuple[Socket, ...] = ()
        self._is_open = False
        self._is_ending = False
        self._unserved: tuple[int, ...] = ()
        self._work = asyncio.Event()
        self._asked = 0
        self._done = 0
        self._waiting: list[tuple[int, asyncio.Future[Problems]]] = []
        self.task: asyncio.Task[None] | None = None
        self._retry = Retry(self._bus, self._work.set)
        self._revival = Retry(self._bus, self._work.set)
        self._refused = Refused[tuple[str, ...]](self._work.set)
        self._expiry = Expiry()
        self._dates: asyncio.TimerHandle | None = None
        self.problems: Problems = ()
        self.in_force: Tls | None = None
        """What was accepted last as a whole."""
        self.good: Tls | None = None
        """What it takes to serve the same again after a restart; None as long as nothing was accepted."""

    # -- from outside ----------------------------------------------------------------------

    def start(self) -> None:
        self.task = asyncio.create_task(self._keep_forever())
        self.task.add_done_callback(self._ended)

    def open(self) -> None:
        """Begin to serve: there is a varnishd to hand requests to."""
        if not self._is_open:
            self._is_open = True
            self._ask()

    def want(self, tls: Tls | None, sockets: tuple[Socket, ...]) -> None:
        """Take in what is to be served; return at once."""
        if (tls, sockets) != (self._tls, self._sockets):
            self._tls, self._sockets = tls, sockets
            self._ask()

    async def settled(self) -> Problems:
        """Return when what is wanted serves, or with what stands against it; at once before anything can serve."""
        if self.task is not None and self.task.done():
            self.task.result()  # raises the bug of ours that ended it
        if not self.is_busy:
            return self.problems
        done: asyncio.Future[Problems] = asyncio.get_running_loop().create_future()
        self._waiting.append((self._asked, done))
        return await done

    @property
    def is_busy(self) -> bool:
        return self._is_open and not self._is_ending and self._done != self._asked

    @property
    def ports(self) -> set[int]:
        """The ports that TLS ends on now."""
        return self.serving.plan.ports if self.serving.running else set()

    @property
    def unready_reason(self) -> str:
        """Return why there is no TLS though there could be; "" where nothing is amiss."""
        wanted = {port.port for port in self._tls.ports if port.certificates} if self._tls is not None else set()
        if not self._is_open or self.serving.running or not wanted & {socket.port for socket in self._sockets}:
            return ""
        return "" if self._is_refused else "HAProxy does not run"

    async def metrics(self) -> list[str]:
        """Return lines for /metrics; counters are left out while HAProxy can't be asked."""
        rows: list[dict[str, str]] = []
        with contextlib.suppress(OSError):
            rows = await self.serving.admin.frontends() if self.serving.running else []
        return [*metrics.lines(rows, self._expiry.dated)]

    def finish(self) -> None:
        """Take no new connections; those that are there may end."""
        self._is_ending = True
        self.serving.finish()

    async def stop(self) -> None:
        self._is_ending = True
        self._retry.cancel()
        self._revival.cancel()
        self._refused.close()
        if self._dates is not None:
            self._dates.cancel()
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait({self.task})
        await self.serving.stop()

    # -- one pass after another ------------------------------------------------------------

    @property
    def _is_refused(self) -> bool:
        """Whether nothing serves because nothing that we were given can."""
        return bool(self.problems) and all(isinstance(problem, errors.TlsRefused) for problem in self.problems)

    def _ask(self) -> None:
        self._asked += 1
        self._work.set()

    async def _keep_forever(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            asked = self._asked
            if self._is_ending:
                self._answer(asked)
            if not self._is_open or self._is_ending:
                continue
            try:
                problems = await self._keep()
                self._retry.begin_anew()
                self._try_again(problems)
            except (errors.GatewayError, OSError) as fault:
                problems = (fault,)
                self._retry.later(fault)
            self._done = asked
            self._conclude(problems)
            self._answer(asked)

    def _try_again(self, refusals: Problems) -> None:
        """Have another look at what was refused, after a while."""
        reasons = tuple(map(str, refusals))
        if not reasons:
            self._refused.clear()
        elif self._refused.why(reasons) is None:
            self._refused.note(reasons, "; ".join(reasons))

    def _answer(self, asked: int) -> None:
        """Answer those who wait for what was asked up to now."""
        for number, done in self._waiting:
            if number <= asked and not done.cancelled():
                done.set_result(self.problems)
        self._waiting = [(number, done) for number, done in self._waiting if number > asked]

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Let nobody wait for ever: a bug of ours reaches whoever waits, a stop cancels them."""
        bug = None if task.cancelled() else task.exception()
        if bug is not None:
            log.critical("a bug ended what keeps HAProxy: nothing about TLS changes any more", exc_info=bug)
        for _, done in self._waiting:
            if bug is None or done.cancelled():
                done.cancel()
            else:
                done.set_exception(bug)
        self._waiting = []

    def _conclude(self, problems: Problems) -> None:
        news = [str(problem) for problem in problems if str(problem) not in set(map(str, self.problems))]
        self.problems = problems
        if news and isinstance(problems[0], errors.TlsRefused):
            self._bus.publish(events.TlsFailed(reasons=tuple(news)))
        unserved = tuple(socket.port for socket in self._sockets if socket.port not in self.ports)
        if unserved and unserved != self._unserved and not problems:
            self._bus.publish(events.PortsUnserved(ports=unserved))
        self._unserved = unserved
        self._tell()

    async def _keep(self) -> Problems:
        """Do whatever is needed for what is wanted now."""
        if self._tls is None:
            return ()
        fault = await self._come_back()
        tls, serving = self._tls, self.serving
        wanted, problems = self._planner.plan(tls, self._sockets, serving.plan)
        if wanted != serving.plan or serving.is_mixed:
            try:
                await serving.change(wanted, self._sockets)
            except errors.TlsRefused as refusal:
                problems.append(refusal)
            self._expiry.take(serving.plan)
            self._look_at_dates()
        if fault is not None and serving.plan.binds and not serving.running:
            raise fault
        if not problems:
            self.in_force = self.good = tls
        elif serving.plan.binds:
            self.good = serving.plan.tls
        return tuple(problems)

    async def _come_back(self) -> errors.ChildExited | None:
        """Have HAProxy with what it served; return why not, for what is wanted now may do."""
        try:
            await self.serving.come_back()
        except errors.ChildExited as fault:
            return fault
        return None

    def _take_death(self, seconds: float) -> None:
        if seconds < STEADY_SECONDS:
            self._revival.later(errors.ChildExited(f"HAProxy died {seconds:.1f} s after it had begun"))
        else:
            self._revival.begin_anew()
            self._work.set()
        self._tell()

    def _look_at_dates(self) -> None:
        """Tell of certificates that have expired, now and whenever the next one does."""
        now = time.time()
        for one in self._expiry.news(now):
            self._bus.publish(events.CertificateExpired(names=one.names, port=one.port))
        if self._dates is not None:
            self._dates.cancel()
        following = self._expiry.next(now)
        if following is not None:
            delay = min(following - now, DAY)  # clocks are set, too
            self._dates = asyncio.get_running_loop().call_later(delay, self._look_at_dates)
