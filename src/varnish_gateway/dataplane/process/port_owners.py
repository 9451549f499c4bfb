"""Which program opens a port: varnishd, or the TLS terminator before it.

In:   the sockets that varnishd starts with, and the desired ones, as often as they change.
Out:  the sockets that varnishd should have, and the ports of the TLS terminator.
Pure. varnishd opens sockets only when it starts, and a start costs the cache. So the TLS terminator opens all ports
that come later, plain ones too, and passes their requests to one socket of varnishd for each scheme.

A port that varnishd has open stays open when its last listener goes, and ghost answers 404 there. varnishd gives a
port up, by a restart, only where another program needs it: the TLS terminator, or another Gateway on this machine.
varnishd never gets a port back while the data plane lives. So each port of its start costs one restart at most,
however often listeners change.
"""

from typing import NamedTuple

from varnish_gateway.dataplane.process.sockets import Socket, Sockets
from varnish_gateway.ir.reserved import PLAIN_SCHEME, TLS_SCHEME, later_socket, proxy_socket


class TerminatorPort(NamedTuple):
    """A port of the TLS terminator, and the file of the Unix socket of varnishd that takes its requests."""

    socket: Socket
    behind: str

    @property
    def is_later(self) -> bool:
        """Whether it opened while varnishd runs, or should."""
        return self.behind != proxy_socket(self.socket.port)


class PortOwners:
    """Without ``opens_later`` varnishd gets every port, which takes a restart."""

    def __init__(self, sockets: Sockets, *, opens_later: bool) -> None:
        self.opens_later = opens_later
        self.varnishd = sockets._replace(later=opens_later)
        """What varnishd should have open."""
        self.terminator: tuple[TerminatorPort, ...] = ()
        self.update(sockets)

    @property
    def unused(self) -> tuple[Socket, ...]:
        """The sockets that varnishd has open without a listener."""
        return tuple(socket for socket in self.varnishd.plain if socket not in self._desired.plain)

    def update(self, desired: Sockets, needed: frozenset[int] = frozenset()) -> None:
        """Apply the desired sockets. Other Gateways on this machine have listeners on the ``needed`` ports."""
        self._desired = desired
        if self.opens_later:
            self.varnishd = self._kept(desired, needed)
        else:
            self.varnishd = desired
        own = {socket.name for socket in self.varnishd.tls}
        ports = [
            TerminatorPort(socket, proxy_socket(socket.port) if socket.name in own else later_socket(TLS_SCHEME))
            for socket in desired.tls
        ]
        later = set(desired.plain) - set(self.varnishd.plain)
        ports += [TerminatorPort(socket, later_socket(PLAIN_SCHEME)) for socket in later]
        self.terminator = tuple(sorted(ports, key=lambda port: port.socket.port))

    def _kept(self, desired: Sockets, needed: frozenset[int]) -> Sockets:
        """Return what varnishd has and may keep, and what it alone can open."""
        kept = tuple(socket for socket in self.varnishd.plain if not _is_needed(socket, desired, needed))
        plain = tuple(socket for socket in desired.plain if socket not in kept and not socket.can_open_later)
        names = {socket.name for socket in self.varnishd.tls}
        tls = tuple(socket for socket in desired.tls if socket.name not in names and not socket.can_open_later)
        return Sockets((*kept, *plain), (*self.varnishd.tls, *tls), later=True)


def _is_needed(socket: Socket, desired: Sockets, needed: frozenset[int]) -> bool:
    """Whether varnishd has to give a socket up."""
    if socket in desired.plain:
        return False
    others = (*desired.plain, *desired.tls)
    return socket.port in needed or any(
        socket.name == other.name or (socket.port == other.port and socket.port) for other in others
    )
