"""The sockets of a pod: those that it starts with, and those of listeners that came since.

In:   VARNISH_LISTEN, and the listeners of the routing that serves.
Out:  Sockets. The data plane opens those that are new while varnishd runs.
Pure.

What varnishd has open stays: only a new pod can give that up. A listener that needs such a port for TLS stays closed,
and /ready says so, until the operator replaces the pods. The TLS terminator can change a port of its own.
"""

from collections.abc import Iterable

from varnish_gateway.dataplane.process.sockets import Socket, Sockets
from varnish_gateway.ir import wire


def with_listeners(start: Sockets, listeners: Iterable[wire.Listener]) -> Sockets:
    """Return the sockets of the start with those that listeners need besides."""
    known = {socket.name for socket in (*start.plain, *start.tls)}
    new = {
        listener.socket: Socket(listener.socket, f":{listener.port}", (listener.scheme,))
        for listener in listeners
        if listener.port and listener.socket not in known
    }
    ports = {socket.port for socket in new.values()}
    plain = (*start.plain, *(socket for socket in new.values() if not socket.tls))
    kept = tuple(socket for socket in start.tls if socket.port not in ports)
    return Sockets(plain, (*kept, *(socket for socket in new.values() if socket.tls)))
