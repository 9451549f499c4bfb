"""Which ports can be bound now.

In:   Sockets that a program is about to open.
Out:  the first one that is taken, and why, or by which process. The check runs before a running program
      is stopped for it.
"""

import errno
import socket as networking
from collections.abc import Iterable, Iterator

from varnish_gateway import errors
from varnish_gateway.dataplane.process.holders import holder
from varnish_gateway.dataplane.process.sockets import Socket


def first_taken(sockets: Iterable[Socket]) -> errors.ChildExited | None:
    """Return why a port can't be bound, None if all of them can."""
    for socket, fault in _unbindable(sockets):
        return _explained(socket, fault)
    return None


def first_in_use(sockets: Iterable[Socket]) -> errors.ChildExited | None:
    """Return why a port can't be bound by any program. What we may not bind, varnishd may be allowed to."""
    for socket, fault in _unbindable(sockets):
        if fault.errno == errno.EADDRINUSE:
            return _explained(socket, fault)
    return None


def in_use(sockets: Iterable[Socket]) -> bool:
    """Whether another process listens on one of the sockets."""
    return any(fault.errno == errno.EADDRINUSE for _, fault in _unbindable(sockets))


def _explained(socket: Socket, fault: OSError) -> errors.ChildExited:
    by = holder(socket.port) if fault.errno == errno.EADDRINUSE else ""
    return errors.ChildExited(f"socket {socket.name} on {socket.address}: {fault.strerror}{by}")


def _unbindable(sockets: Iterable[Socket]) -> Iterator[tuple[Socket, OSError]]:
    """Try to bind the ports; yield the sockets that can't be bound now, and why."""
    for socket in sockets:
        if socket.port == 0:
            continue
        host = socket.address.rpartition(":")[0].strip("[]")
        family = networking.AF_INET6 if ":" in host else networking.AF_INET
        with networking.socket(family, networking.SOCK_STREAM) as probe:
            probe.setsockopt(networking.SOL_SOCKET, networking.SO_REUSEADDR, 1)
            try:
                probe.bind((host, socket.port))
            except OSError as fault:
                yield socket, fault
