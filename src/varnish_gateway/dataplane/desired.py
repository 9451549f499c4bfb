"""Everything that was asked of a data plane so far.

In:   Changes, and the addresses of external hosts.
Out:  what is wanted now: sockets, arguments, VCL, TLS, and ghost's files as one Bundle. Pure.
"""

from collections.abc import Mapping

from varnish_gateway.dataplane.change import Change
from varnish_gateway.dataplane.ghost.files import Bundle, GhostFiles
from varnish_gateway.dataplane.ghost.join import Join
from varnish_gateway.dataplane.process.sockets import Sockets
from varnish_gateway.ir import Tls


class Wanted:
    """Begins with what the settings say."""

    def __init__(self, sockets: Sockets, extra_args: tuple[str, ...]) -> None:
        self.sockets = sockets
        self.extra_args = extra_args
        self.tls: Tls | None = None
        self.vcl: str | None = None
        self.generation: str | None = None
        self.join = Join()
        self._files = GhostFiles()
        self._bundle = self._files.bundle()

    def take(self, change: Change) -> None:
        self.vcl = self.vcl if change.vcl is None else change.vcl
        self.sockets = change.sockets or self.sockets
        self.extra_args = self.extra_args if change.extra_args is None else change.extra_args
        self.tls = self.tls if change.tls is None else change.tls
        self.generation = change.generation or self.generation
        if change.bundle is not None:
            self._bundle = change.bundle
        if change.routing or change.slices or change.remembered or change.listed:
            pools = self.join.update(
                routing=change.routing, slices=change.slices, remembered=change.remembered, listed=change.listed
            )
            self._files.update(change.routing, pools)
            self._bundle = self._files.bundle()

    def resolve(self, resolved: Mapping[str, tuple[str, ...]]) -> None:
        self._files.update({}, self.join.update(resolved=resolved))
        self._bundle = self._files.bundle()

    def bundle(self) -> Bundle:
        return self._bundle
