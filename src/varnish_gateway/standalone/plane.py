"""The data plane of one Gateway, in this process.

In:   what changed about the Gateway, and EndpointSlices.
Out:  traffic, and a call of ``report`` whenever it is known whether the desired state serves.

Each plane has a task that applies the desired state to its varnishd; changes that arrive meanwhile are
applied together. Gateways do not wait for one another. Everything that the task logs carries the
Gateway's name.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from varnish_gateway import errors
from varnish_gateway.api import EndpointSlice, Key
from varnish_gateway.dataplane import events
from varnish_gateway.dataplane.assemble import assemble
from varnish_gateway.dataplane.change import ServingState
from varnish_gateway.dataplane.dataplane import DataPlane
from varnish_gateway.dataplane.ghost.metrics import CachedRoutes
from varnish_gateway.dataplane.metrics import EventCounters, page
from varnish_gateway.dataplane.process.memory import memory
from varnish_gateway.dataplane.process.sizing import default_store_of_a_machine
from varnish_gateway.dataplane.process.workdir import STORE_DIRECTORY
from varnish_gateway.dataplane.scrape import scrape
from varnish_gateway.dataplane.settings import Settings
from varnish_gateway.ir import GatewayDelta, wire
from varnish_gateway.ir.inspection import Stored
from varnish_gateway.ir.invalidation import Invalidation
from varnish_gateway.runtime.backoff import Backoff
from varnish_gateway.runtime.logs import GATEWAY
from varnish_gateway.standalone.desired import DesiredPlane

DRAIN_SECONDS = 5.0
FIRST_RETRY_SECONDS = 0.1
LAST_RETRY_SECONDS = 2.0

_STOPPED = ServingState(
    ready=False,
    reason="varnishd does not run",
    configuration=None,
    vcl=None,
    generation=None,
    sockets=(),
    up_to_date=False,
    problems=(),
)

Report = Callable[[Key, bool, str, Mapping[str, str]], None]
"""Called with the Gateway, whether its desired state serves, the reason if not, and the sockets that are closed.

A closed socket affects its own listeners only.
"""


class Plane:
    """Runs from its creation until it is closed."""

    def __init__(
        self,
        key: Key,
        work_dir: Path,
        report: Report,
        *,
        after: asyncio.Task[None] | None = None,
        tokens: Path | None = None,
    ) -> None:
        """``after`` has to end before this plane starts: a plane of the same Gateway that still drains.

        ``tokens`` is a file that varnishd must not read.
        """
        self.key = key
        self._work_dir = work_dir
        self._report = report
        self._tokens = tokens
        self._memory = memory()
        self._desired = DesiredPlane((work_dir / STORE_DIRECTORY).absolute(), self._memory)
        self._wake = asyncio.Event()
        self._data_plane: DataPlane | None = None
        self._stopping: DataPlane | None = None
        self._is_closing = False
        self._counters = EventCounters()  # those of a former data plane stay
        self._routes = CachedRoutes(self._desired.cached_routes)
        self._backoff = Backoff(FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS)
        self.task = asyncio.create_task(self._run(after))

    @property
    def is_ready(self) -> bool:
        """Whether requests are answered; a Gateway without listeners has none to answer."""
        return self.served.ready if self.served is not None else not self._desired.has_listeners

    @property
    def served(self) -> ServingState | None:
        """What serves at this moment; None while no varnishd runs."""
        return self._data_plane.served if self._data_plane is not None else None

    @property
    def listeners(self) -> tuple[wire.Listener, ...]:
        return self._desired.state.placed

    @property
    def attached(self) -> Collection[Key]:
        """The routes that are attached to it now."""
        return self._desired.state.routes.keys()

    @property
    def ports(self) -> frozenset[int]:
        """The ports of its listeners."""
        return self._desired.ports

    @property
    def former_ports(self) -> frozenset[int]:
        """Ports that its listeners had."""
        return self._desired.former_ports

    def need(self, ports: frozenset[int]) -> None:
        """Release former ports: other Gateways need them."""
        if self._desired.need(ports):
            self._wake.set()

    async def metrics(self) -> list[str]:
        """Return lines for /metrics."""
        if self._data_plane is None:
            return page(self._counters, _STOPPED, None).splitlines()
        self._routes.limit = self._desired.cached_routes
        return await scrape(self._data_plane, self._counters, self._routes, self._data_plane.served)

    @property
    def may_hold_objects(self) -> bool:
        """Whether its varnishd may have stored anything."""
        return self._data_plane is not None and self._data_plane.may_hold_objects

    async def invalidate(self, invalidation: Invalidation, client: str) -> tuple[int, ...]:
        """Invalidate for a client; return how many objects each target hit. Raise BadDocument or OSError."""
        self._name_log()
        return await self._running.invalidate(invalidation, client)

    async def check(self, invalidation: Invalidation) -> None:
        """Raise BadDocument where ghost would not carry it out, OSError where that isn't known."""
        await self._running.check(invalidation)

    async def inspect(self, invalidation: Invalidation) -> Stored:
        """Return what the invalidation of a URI would hit; raise BadDocument or OSError."""
        return await self._running.inspect(invalidation)

    @property
    def _running(self) -> DataPlane:
        if self._data_plane is None:
            raise ConnectionError("varnishd does not run")
        return self._data_plane

    def update(
        self, delta: GatewayDelta | None, slices: Mapping[Key, EndpointSlice | None], *, is_whole: bool = False
    ) -> None:
        """Update the desired state, or replace it by a whole one; return at once."""
        if delta is not None:
            self._desired.update(self._desired.replacement(delta) if is_whole else delta)
        self._desired.update_slices(slices)
        self._wake.set()

    async def drain(self) -> None:
        """Wait until all connections are closed, for DRAIN_SECONDS at most."""
        self._name_log()
        self._is_closing = True
        if self._data_plane is not None:
            await self._data_plane.drain(DRAIN_SECONDS)

    async def close(self) -> None:
        """Stop varnishd."""
        self._name_log()
        self._is_closing = True
        self.task.cancel()
        await asyncio.wait({self.task})
        await self._stop()

    def _name_log(self) -> None:
        """Add the Gateway's name to all log records of this task and of those that it starts."""
        GATEWAY.set(f"{self.key.namespace}/{self.key.name}")

    async def _run(self, after: asyncio.Task[None] | None) -> None:
        self._name_log()
        if after is not None:
            await asyncio.wait({after})
        while True:
            await self._wake.wait()
            self._wake.clear()
            if not self._desired.has_listeners:
                await self._stop()
            elif self._desired.vcl is None:
                self._report(self.key, False, "the user VCL is not available", {})
            else:
                await self._try_to_apply()

    async def _try_to_apply(self) -> None:
        try:
            await self._apply()
            self._backoff.reset()
        except (errors.GatewayError, OSError) as error:
            self._report(self.key, False, f"{error}; it is tried again", {})
            await self._stop()
            delay = self._backoff.next()
            self._counters(events.Fault(reason=str(error), retry_seconds=delay))
            asyncio.get_running_loop().call_later(delay, self._wake.set)

    async def _apply(self) -> None:
        """Apply the desired state."""
        is_new = self._data_plane is None
        if self._data_plane is None:
            self._data_plane = await self._start()
        outcome = await self._data_plane.apply(self._desired.change(whole=is_new))
        self._report(self.key, outcome.serves, "; ".join(map(str, outcome.problems)), outcome.closed)

    async def _start(self) -> DataPlane:
        settings = Settings(
            work_dir=self._work_dir,
            sockets=self._desired.sockets,
            storage=(default_store_of_a_machine(self._memory),),
            extra_args=self._desired.extra_args,
            drain_seconds=DRAIN_SECONDS,
            invalidation_tokens=self._tokens,
            gateway_name=self.key.name,
            namespace=self.key.namespace,
        )
        data_plane = assemble(settings)
        data_plane.bus.subscribe(self._on_event)
        data_plane.bus.subscribe(self._counters)
        try:
            await data_plane.start()
        except BaseException:
            await data_plane.stop(0)
            raise
        return data_plane

    def _on_event(self, event: events.Event) -> None:
        """Report a recovery that no change caused, too."""
        is_about_serving = isinstance(event, events.Ready | events.PortsChanged)
        if is_about_serving and self._data_plane is not None and not self._is_closing:
            served = self._data_plane.served
            message = served.reason or "; ".join(served.problems)
            self._report(self.key, served.ready and not served.problems, message, served.closed)

    async def _stop(self) -> None:
        self._stopping, self._data_plane = self._data_plane or self._stopping, None
        if self._stopping is not None:  # also one whose stop was cancelled
            await self._stopping.stop(0)
            self._stopping = None
