"""Keeps HAProxy in front of varnishd at the newest certificates that work.

In:   TLS and https sockets, as often as they change.
Out:  TLS on their ports. Where there is no certificate, no HAProxy runs.

A task of its own does the work, so that plain listeners and their changes never wait for it.
Certificates change while HAProxy serves, through its admin socket; ports and authorities by a
reload. Whatever is refused, what served before goes on; what fails for the world's sake is
tried again by itself. The files on disk are always those that HAProxy should start with.
"""

import asyncio
import time
from collections.abc import Callable

from varnish_gateway import errors
from varnish_gateway.chaperone.events import Bus, Fault
from varnish_gateway.chaperone.sockets import Socket
from varnish_gateway.chaperone.supervisor import first_taken
from varnish_gateway.chaperone.tls import events, haproxy
from varnish_gateway.chaperone.tls.admin import MOST_PAYLOAD, AdminSocket
from varnish_gateway.chaperone.tls.haproxy import Haproxy
from varnish_gateway.chaperone.tls.machine import addresses, machine
from varnish_gateway.chaperone.tls.plan import Plan, Planner, Steps, steps
from varnish_gateway.chaperone.tls.store import Store
from varnish_gateway.chaperone.workdir import Layout
from varnish_gateway.emit.haproxy import ADMIN_SOCKET, CONFIG, DIRECTORY, config, crt_list, list_file, list_line
from varnish_gateway.ir import Tls

FIRST_RETRY_SECONDS = 0.1
LAST_RETRY_SECONDS = 5.0

Problems = tuple[Exception, ...]


class Front:
    """start, then want as often as there is a change, then stop. ``tell`` is called when something is different."""

    def __init__(self, layout: Layout, bus: Bus, tell: Callable[[], None]) -> None:
        self._work_dir = layout.work_dir
        self._bus = bus
        self._tell = tell
        self._machine = machine()
        self._admin = AdminSocket(layout.work_dir / DIRECTORY / ADMIN_SOCKET)
        self._store: Store | None = None
        self._planner = Planner(self._check, addresses)
        self._tls: Tls | None = None
        self._sockets: tuple[Socket, ...] = ()
        self._haproxy: Haproxy | None = None
        self._plan = Plan()
        self._label = 0
        self._is_open = False
        self._is_ending = False
        self._died_at: float | None = None
        self._unserved: tuple[int, ...] = ()
        self._is_mixed = False  # an exchange was not finished
        self._work = asyncio.Event()
        self._asked = 0
        self._done = 0
        self._waiting: list[tuple[int, asyncio.Future[Problems]]] = []
        self._task: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._retry_seconds = FIRST_RETRY_SECONDS
        self._retry: asyncio.TimerHandle | None = None
        self.problems: Problems = ()
        self.in_force: Tls | None = None
        """What was accepted last as a whole."""

    # -- from outside ----------------------------------------------------------------------

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep_forever())
        self._task.add_done_callback(self._ended)

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
        if not self._is_open or self._is_ending or self._done == self._asked:
            return self.problems
        done: asyncio.Future[Problems] = asyncio.get_running_loop().create_future()
        self._waiting.append((self._asked, done))
        return await done

    @property
    def ports(self) -> set[int]:
        """The ports that TLS ends on now."""
        return self._plan.ports if self._running else set()

    @property
    def unready_reason(self) -> str:
        """Return why there is no TLS though there could be; "" where nothing is amiss."""
        wanted = {port.port for port in self._tls.ports if port.certificates} if self._tls is not None else set()
        if not self._is_open or self._running or not wanted & {socket.port for socket in self._sockets}:
            return ""
        return "" if self._is_refused else "HAProxy does not run"

    def finish(self) -> None:
        """Take no new connections; those that are there may end."""
        self._is_ending = True
        if self._haproxy is not None:
            self._haproxy.finish()

    async def stop(self) -> None:
        self._is_ending = True
        if self._retry is not None:
            self._retry.cancel()
        for task in (self._task, self._watch):
            if task is not None:
                task.cancel()
                await asyncio.wait({task})
        if self._haproxy is not None:
            await self._haproxy.stop()

    # -- one pass after another ------------------------------------------------------------

    @property
    def _running(self) -> bool:
        return self._haproxy is not None and self._haproxy.running

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
            if not self._is_open or self._is_ending:
                continue
            asked = self._asked
            try:
                problems = await self._keep()
                self._retry_seconds = FIRST_RETRY_SECONDS
            except (errors.GatewayError, OSError) as fault:
                problems = (fault,)
                self._retry_later(fault)
            self._conclude(problems)
            self._answer(asked)

    def _answer(self, asked: int) -> None:
        """Answer those who wait for what was asked up to now."""
        self._done = asked
        for number, done in self._waiting:
            if number <= asked and not done.cancelled():
                done.set_result(self.problems)
        self._waiting = [(number, done) for number, done in self._waiting if number > asked]

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Let nobody wait for ever: a bug of ours reaches whoever waits, a stop cancels them."""
        bug = None if task.cancelled() else task.exception()
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

    def _retry_later(self, fault: Exception) -> None:
        delay, self._retry_seconds = self._retry_seconds, min(self._retry_seconds * 2, LAST_RETRY_SECONDS)
        self._bus.publish(Fault(reason=str(fault), retry_seconds=delay))
        if self._retry is not None:
            self._retry.cancel()
        self._retry = asyncio.get_running_loop().call_later(delay, self._work.set)

    async def _keep(self) -> Problems:
        """Do whatever is needed for what is wanted now."""
        if self._tls is None:
            return ()
        tls = self._tls
        if not self._running and self._plan.binds:
            await self._launch(self._plan)
        wanted, problems = self._planner.plan(tls, self._sockets, self._plan)
        if wanted != self._plan or self._is_mixed:
            try:
                await self._change(wanted)
            except errors.TlsRefused as refusal:
                problems.append(refusal)
        if not problems:
            self.in_force = tls
        return tuple(problems)

    async def _change(self, wanted: Plan) -> None:
        """Come from the present plan to another one, or leave everything as it is."""
        if not wanted.binds:
            await self._end()
        elif not self._running:
            await self._launch(wanted)
        elif self._is_mixed or (way := steps(self._plan, wanted, MOST_PAYLOAD)) is None:
            await self._reload(wanted)
        else:
            self._is_mixed = True
            try:
                await self._exchange(wanted, way)
            except (errors.TlsRefused, OSError):
                await self._reload(wanted)  # it reads what is on disk, whatever became of the rest
        self._plan, self._is_mixed = wanted, False

    async def _end(self) -> None:
        """TLS ends nowhere any more."""
        ending, self._haproxy = self._haproxy, None
        if ending is not None:
            await ending.stop()
        self._files.write({})

    async def _launch(self, plan: Plan) -> None:
        own = self._plan.ports
        if (taken := first_taken(socket for socket in self._sockets if socket.port in plan.ports - own)) is not None:
            raise taken
        label = self._write(plan)
        await self._refuse_unless_good(plan)
        self._haproxy = await haproxy.launch(self._work_dir, self._admin, label)
        self._watch = asyncio.create_task(self._watch_master(self._haproxy))
        self._bus.publish(events.HaproxyStarted(pid=self._haproxy.pid, ports=tuple(sorted(plan.ports))))
        if self._died_at is not None:
            self._bus.publish(events.HaproxyBack(seconds=time.monotonic() - self._died_at))
            self._died_at = None

    async def _reload(self, plan: Plan) -> None:
        new = plan.ports - self._plan.ports
        if (taken := first_taken(socket for socket in self._sockets if socket.port in new)) is not None:
            raise taken
        assert self._haproxy is not None  # noqa: S101 - only called while it runs
        started = time.monotonic()
        label = self._write(plan)
        try:
            await self._refuse_unless_good(plan)
            self._haproxy.reload()
            await self._haproxy.serves(label)
        except BaseException:
            self._write(self._plan)
            raise
        seconds = time.monotonic() - started
        self._bus.publish(events.HaproxyReloaded(ports=tuple(sorted(plan.ports)), seconds=seconds))

    async def _refuse_unless_good(self, plan: Plan) -> None:
        """Raise TlsRefused before a running HAProxy is given up for what is on disk; what served once is good."""
        if plan is not self._plan:
            await haproxy.check(self._work_dir)

    async def _exchange(self, plan: Plan, way: Steps) -> None:
        """Change certificates while HAProxy serves: new ones first, so that every name always has one."""
        started = time.monotonic()
        self._write(plan)
        for name in way.replaced:
            await self._put(name, plan.files[name])
        for port, slot in way.added:
            await self._admin.do(f"new ssl cert {DIRECTORY}/{slot.name}", "New empty certificate store")
            await self._put(slot.name, plan.files[slot.name])
            line = f"{list_line(slot)}\n".encode()
            await self._admin.do(f"add ssl crt-list {DIRECTORY}/{list_file(port)}", "Success!", line)
        for port, slot in way.removed:
            name = f"{DIRECTORY}/{slot.name}"
            await self._admin.do(f"del ssl crt-list {DIRECTORY}/{list_file(port)} {name}", "deleted")
            await self._admin.do(f"del ssl cert {name}", "deleted")
        self._bus.publish(
            events.CertificatesChanged(
                replaced=len(way.replaced),
                added=len(way.added),
                removed=len(way.removed),
                seconds=time.monotonic() - started,
            )
        )

    async def _put(self, name: str, content: bytes) -> None:
        await self._admin.do(f"set ssl cert {DIRECTORY}/{name}", "Transaction", content)
        try:
            await self._admin.do(f"commit ssl cert {DIRECTORY}/{name}", "Success!")
        except BaseException:
            await self._admin.ask(f"abort ssl cert {DIRECTORY}/{name}")
            raise

    # -- files and processes ---------------------------------------------------------------

    @property
    def _files(self) -> Store:
        """The files, from the first time on that there is TLS."""
        if self._store is None:
            self._store = Store(self._work_dir / DIRECTORY)
        return self._store

    def _check(self, content: bytes) -> None:
        self._files.check(content)

    def _write(self, plan: Plan) -> str:
        """Write everything that HAProxy reads; return the label by which it tells that it has."""
        self._label += 1
        label = f"configuration-{self._label}"
        lists = {list_file(port): crt_list(slots).encode() for port, slots in plan.lists.items()}
        self._files.write({**plan.files, **lists, CONFIG: config(plan.binds, self._machine, label).encode()})
        return label

    async def _watch_master(self, master: Haproxy) -> None:
        reason = await master.exited()
        if self._haproxy is master and not master.is_ending:
            self._haproxy = None
            self._died_at = time.monotonic()
            self._bus.publish(events.HaproxyExited(reason=reason))
            self._work.set()
            self._tell()
