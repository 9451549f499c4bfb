"""The desired state of one Gateway's data plane, and which part of it the data plane lacks.

In:   deltas of the Gateway's translation, and EndpointSlices.
Out:  ``change`` returns everything that the data plane does not have yet.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from msgspec import UNSET

from varnish_gateway.api import EndpointSlice, Key
from varnish_gateway.api.varnish import MetricsParameters, StorageParameters
from varnish_gateway.dataplane.change import Change
from varnish_gateway.dataplane.pending import PendingChanges
from varnish_gateway.dataplane.process.memory import Memory
from varnish_gateway.dataplane.process.sizing import memory_of_a_machine, sized
from varnish_gateway.dataplane.process.sockets import Sockets, parse_listen
from varnish_gateway.dataplane.settings import NOT_KNOWN
from varnish_gateway.emit.listen import varnish_listen
from varnish_gateway.emit.routing import Shards, request_rules
from varnish_gateway.emit.vcl import main_vcl
from varnish_gateway.ir import GatewayDelta, GatewayState, Tls, UserVclUnavailable
from varnish_gateway.ir.arguments import of_class
from varnish_gateway.ir.stores import store

log = logging.getLogger(__name__)


@dataclass
class DesiredPlane:
    """``vcl`` is None until the user VCL is available for the first time. ``store_dir`` is for a cache in a file."""

    store_dir: Path = Path("store")
    memory: Memory = NOT_KNOWN
    state: GatewayState = field(default_factory=GatewayState)
    vcl: str | None = None
    slices: dict[Key, EndpointSlice] = field(default_factory=dict)
    _shards: Shards = field(default_factory=Shards)
    _pending: PendingChanges = field(default_factory=PendingChanges)
    _needed_ports: frozenset[int] = frozenset()
    _former_ports: set[int] = field(default_factory=set)
    _applied_sockets: Sockets | None = None
    _applied_needed: frozenset[int] = frozenset()
    _applied_tls: Tls | None = None

    @property
    def has_listeners(self) -> bool:
        return bool(self.state.placed)

    @property
    def extra_args(self) -> tuple[str, ...]:
        parameters = self.state.parameters
        return () if parameters is None else (*self._store(parameters.storage), *of_class(parameters))

    @property
    def cached_routes(self) -> int:
        """How many routes the metrics of the cache are about."""
        parameters = self.state.parameters
        return (MetricsParameters() if parameters is None else parameters.metrics).cached_routes

    def _store(self, storage: StorageParameters) -> tuple[str, ...]:
        """Return the arguments for a storage of the class: a change restarts varnishd, as any argument does."""
        if storage == StorageParameters():
            return ()
        return ("-s", sized(store(storage, self.store_dir), memory_of_a_machine(self.memory)))

    @property
    def sockets(self) -> Sockets:
        return parse_listen(varnish_listen(self.state.placed, reload_port=0))

    @property
    def ports(self) -> frozenset[int]:
        return frozenset(listener.port for listener in self.state.placed)

    @property
    def former_ports(self) -> frozenset[int]:
        """Ports that a listener had; varnishd may still have them open."""
        return frozenset(self._former_ports) - self.ports

    def need(self, ports: frozenset[int]) -> bool:
        """Set the former ports that other Gateways need; return whether that changes something."""
        is_new = ports != self._needed_ports
        self._needed_ports = ports
        return is_new

    def replacement(self, delta: GatewayDelta) -> GatewayDelta:
        """Return the delta that makes this state equal to that of a new Gateway with this first delta."""
        routes = {**dict.fromkeys(self.state.routes), **delta.routes}
        return msgspec.structs.replace(delta, routes=routes, tls=delta.tls or Tls())

    def update(self, delta: GatewayDelta) -> None:
        self.state.apply(delta)
        self._former_ports |= self.ports
        if isinstance(delta.user_vcl, UserVclUnavailable):
            effect = "the previous one keeps serving" if self.vcl else "nothing is served until it is available"
            log.error("user VCL is not available, %s: %s", effect, delta.user_vcl.reason)
        elif delta.user_vcl is not UNSET:
            self.vcl = main_vcl(delta.user_vcl, caching=True)
        requests = request_rules(delta.parameters)
        shards = self._shards.update(listeners=delta.listeners, requests=requests, routes=delta.routes)
        self._pending.add(Change(routing=shards))

    def update_slices(self, slices: Mapping[Key, EndpointSlice | None]) -> None:
        self._pending.add(Change(slices=slices))
        for key, endpoint_slice in slices.items():
            if endpoint_slice is None:
                self.slices.pop(key, None)
            else:
                self.slices[key] = endpoint_slice

    def change(self, *, whole: bool) -> Change:
        """Return what was not returned before, or everything for a new data plane.

        Unchanged sockets and TLS are left out, because applying them waits for HAProxy.
        """
        sockets, tls = self.sockets, self.state.tls
        settings = Change(
            vcl=self.vcl,
            sockets=sockets if whole or sockets != self._applied_sockets else None,
            needed_ports=self._needed_ports if whole or self._needed_ports != self._applied_needed else None,
            extra_args=self.extra_args,
            tls=tls if whole or tls != self._applied_tls else None,
        )
        self._applied_sockets, self._applied_tls, self._applied_needed = sockets, tls, self._needed_ports
        pending = self._pending.drain()
        if whole:
            pending = Change(routing=self._shards.all(), slices=self.slices.copy())
        return settings.merge(pending)
