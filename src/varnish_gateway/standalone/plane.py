"""The data plane of one Gateway, in this process.

In:   what changed about the Gateway, and EndpointSlices.
Out:  traffic, and a call of ``tell`` whenever it is known anew what serves.

A task of its own brings varnishd to what is wanted; what comes while it is at work is taken
together. Gateways do not wait for one another. Everything that this task logs carries the
Gateway's name.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import UNSET

from varnish_gateway import errors
from varnish_gateway.api import EndpointSlice, Key
from varnish_gateway.dataplane import events
from varnish_gateway.dataplane.assemble import assemble
from varnish_gateway.dataplane.change import Change, ServingState
from varnish_gateway.dataplane.dataplane import DataPlane
from varnish_gateway.dataplane.process.sockets import Sockets, parse_listen
from varnish_gateway.dataplane.settings import Settings
from varnish_gateway.emit.listen import varnish_listen
from varnish_gateway.emit.routing import Shards
from varnish_gateway.emit.vcl import main_vcl
from varnish_gateway.ir import GatewayDelta, Tls, UserVclUnavailable, wire
from varnish_gateway.runtime.logs import GATEWAY

DRAIN_SECONDS = 5.0
FIRST_RETRY_SECONDS = 0.1
LAST_RETRY_SECONDS = 2.0

log = logging.getLogger(__name__)

Tell = Callable[[Key, bool, str], None]
"""Called with the Gateway, whether what is wanted serves, and what stands against it."""


@dataclass
class _Wanted:
    """The whole of what is wanted, and which parts of it are not handed over yet."""

    placed: tuple[wire.Listener, ...] = ()
    vcl: str | None = None
    extra_args: tuple[str, ...] = ()
    tls: Tls = field(default_factory=Tls)
    slices: dict[Key, EndpointSlice] = field(default_factory=dict)
    shards: Shards = field(default_factory=Shards)
    new_shards: dict[int, bytes | None] = field(default_factory=dict)
    new_slices: dict[Key, EndpointSlice | None] = field(default_factory=dict)
    handed_sockets: Sockets | None = None
    handed_tls: Tls | None = None

    def take(self, delta: GatewayDelta) -> None:
        if delta.placed is not None:
            self.placed = delta.placed
        if delta.parameters is not None:
            self.extra_args = delta.parameters.varnishd_extra_args
        if delta.tls is not None:
            self.tls = delta.tls
        if isinstance(delta.user_vcl, UserVclUnavailable):
            state = "the last good one stays" if self.vcl else "nothing is served until it is there"
            log.error("user VCL is not available, %s: %s", state, delta.user_vcl.reason)
        elif delta.user_vcl is not UNSET:
            self.vcl = main_vcl(delta.user_vcl)
        self.new_shards |= self.shards.update(listeners=delta.listeners, routes=delta.routes)

    def take_slices(self, slices: Mapping[Key, EndpointSlice | None]) -> None:
        self.new_slices |= slices
        for key, piece in slices.items():
            if piece is None:
                self.slices.pop(key, None)
            else:
                self.slices[key] = piece

    def change(self, *, whole: bool) -> Change:
        """Return what was not handed over yet, or everything for a new data plane.

        Whoever hands sockets or TLS over waits for HAProxy, and nobody else shall.
        """
        sockets = parse_listen(varnish_listen(self.placed, reload_port=0))
        change = Change(
            vcl=self.vcl,
            sockets=sockets if whole or sockets != self.handed_sockets else None,
            extra_args=self.extra_args,
            tls=self.tls if whole or self.tls != self.handed_tls else None,
            routing=self.shards.all() if whole else self.new_shards,
            slices=self.slices.copy() if whole else self.new_slices,
        )
        self.new_shards, self.new_slices = {}, {}
        self.handed_sockets, self.handed_tls = sockets, self.tls
        return change


class Plane:
    """Runs from its creation until it is closed."""

    def __init__(self, key: Key, work_dir: Path, tell: Tell, *, after: asyncio.Task[None] | None = None) -> None:
        """``after`` is what has to end first: a plane of the same Gateway that still drains."""
        self.key = key
        self._work_dir = work_dir
        self._tell = tell
        self._wanted = _Wanted()
        self._wake = asyncio.Event()
        self._data_plane: DataPlane | None = None
        self._ending: DataPlane | None = None
        self._is_ending = False
        self._retry_seconds = FIRST_RETRY_SECONDS
        self.task = asyncio.create_task(self._run(after))

    @property
    def is_ready(self) -> bool:
        """Whether requests are answered; a Gateway without a listener has none to answer."""
        return self.served.ready if self.served is not None else not self._wanted.placed

    @property
    def served(self) -> ServingState | None:
        """What serves at this moment; None while no varnishd runs."""
        return self._data_plane.served if self._data_plane is not None else None

    def want(self, delta: GatewayDelta | None, slices: Mapping[Key, EndpointSlice | None]) -> None:
        """Take in what changed; return at once."""
        if delta is not None:
            self._wanted.take(delta)
        self._wanted.take_slices(slices)
        self._wake.set()

    async def drain(self) -> None:
        """Wait until nobody is connected any more, but not for long."""
        self._name_log()
        self._is_ending = True
        if self._data_plane is not None:
            await self._data_plane.drain(DRAIN_SECONDS)

    async def close(self) -> None:
        """Stop varnishd."""
        self._name_log()
        self._is_ending = True
        self.task.cancel()
        await asyncio.wait({self.task})
        await self._stop()

    def _name_log(self) -> None:
        """Name the Gateway in all that this task, and those that it starts, say from now on."""
        GATEWAY.set(f"{self.key.namespace}/{self.key.name}")

    async def _run(self, after: asyncio.Task[None] | None) -> None:
        self._name_log()
        if after is not None:
            await asyncio.wait({after})
        while True:
            await self._wake.wait()
            self._wake.clear()
            if not self._wanted.placed:
                await self._stop()
                continue
            if self._wanted.vcl is None:
                self._tell(self.key, False, "the user VCL is not available")
                continue
            try:
                await self._bring_about()
                self._retry_seconds = FIRST_RETRY_SECONDS
            except (errors.GatewayError, OSError) as error:
                self._tell(self.key, False, f"{error}; it is tried again")
                await self._stop()
                asyncio.get_running_loop().call_later(self._retry_seconds, self._wake.set)
                self._retry_seconds = min(self._retry_seconds * 2, LAST_RETRY_SECONDS)

    async def _bring_about(self) -> None:
        """Hand over what is wanted."""
        is_new = self._data_plane is None
        if self._data_plane is None:
            self._data_plane = await self._start()
        outcome = await self._data_plane.apply(self._wanted.change(whole=is_new))
        self._tell(self.key, outcome.serves, "; ".join(map(str, outcome.problems)))

    async def _start(self) -> DataPlane:
        settings = Settings(
            work_dir=self._work_dir,
            sockets=parse_listen(varnish_listen(self._wanted.placed, reload_port=0)),
            extra_args=self._wanted.extra_args,
            drain_seconds=DRAIN_SECONDS,
            gateway_name=self.key.name,
            namespace=self.key.namespace,
        )
        data_plane = assemble(settings)
        data_plane.bus.subscribe(self._hear)
        try:
            await data_plane.start()
        except BaseException:
            await data_plane.stop(0)
            raise
        return data_plane

    def _hear(self, event: events.Event) -> None:
        """Tell what got well by itself, too."""
        if isinstance(event, events.Ready) and self._data_plane is not None and not self._is_ending:
            served = self._data_plane.served
            self._tell(self.key, served.ready and not served.problems, served.reason or "; ".join(served.problems))

    async def _stop(self) -> None:
        self._ending, self._data_plane = self._data_plane or self._ending, None
        if self._ending is not None:  # also one whose stop was cancelled
            await self._ending.stop(0)
            self._ending = None
