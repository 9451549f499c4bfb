"""What a data plane should serve: the sum of all changes so far.

In:   Changes, and the addresses of external hosts.
Out:  the desired sockets, arguments, VCL and TLS, and ghost's files as one Bundle. Pure.
"""

from collections.abc import Mapping

import msgspec

from varnish_gateway.dataplane.change import Change
from varnish_gateway.dataplane.ghost.files import Bundle, GhostFiles
from varnish_gateway.dataplane.ghost.join import Join
from varnish_gateway.dataplane.ghost.unserved import UnservedPools
from varnish_gateway.dataplane.process.port_owners import PortOwners
from varnish_gateway.dataplane.process.sockets import Sockets
from varnish_gateway.ir import Tls


class DesiredConfiguration:
    """Starts with the sockets and arguments of the settings.

    ``opens_later``: the TLS terminator can open ports while varnishd runs.
    """

    def __init__(self, sockets: Sockets, extra_args: tuple[str, ...], *, opens_later: bool = False) -> None:
        self._sockets = sockets
        self.ports = PortOwners(sockets, opens_later=opens_later)
        self._extra_args = extra_args
        self._sum = Change()
        self._join = Join()
        self._files = GhostFiles()
        self._bundle = self._files.bundle()
        self.is_draining = False
        """Whether clients should leave: the data plane is going to stop."""

    @property
    def vcl(self) -> str | None:
        return self._sum.vcl

    @property
    def tls(self) -> Tls | None:
        return self._sum.tls

    @property
    def generation(self) -> str | None:
        return self._sum.generation

    @property
    def sockets(self) -> Sockets:
        """The sockets of varnishd."""
        return self.ports.varnishd

    @property
    def extra_args(self) -> tuple[str, ...]:
        return self._extra_args if self._sum.extra_args is None else self._sum.extra_args

    @property
    def bundle(self) -> Bundle:
        return self._bundle

    @property
    def external_hosts(self) -> frozenset[str]:
        """Host names that the resolver has to follow."""
        return self._join.external_hosts

    @property
    def unserved(self) -> UnservedPools:
        """Pools that can't have endpoints."""
        return self._join.unserved

    def update(self, change: Change) -> None:
        """Apply a change. Routing and endpoints go into ghost's files, which keep them in their own form."""
        scalars = msgspec.structs.replace(change, routing={}, slices={}, remembered={}, listed=frozenset(), bundle=None)
        self._sum = self._sum.merge(scalars)
        if change.sockets is not None or change.needed_ports is not None:
            self.ports.update(self._sum.sockets or self._sockets, self._sum.needed_ports or frozenset())
        if change.bundle is not None:
            self._bundle = change.bundle
        if change.affects_ghost:
            pools = self._join.update(
                routing=change.routing, slices=change.slices, remembered=change.remembered, listed=change.listed
            )
            self._files.update(change.routing, pools)
            self._bundle = self._files.bundle()

    def resolve(self, resolved: Mapping[str, tuple[str, ...]]) -> None:
        """Apply the addresses of external hosts."""
        self._files.update({}, self._join.update(resolved=resolved))
        self._bundle = self._files.bundle()
