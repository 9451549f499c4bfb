"""Listeners as the sockets that varnishd opens.

In:   the listeners of a Gateway.
Out:  VARNISH_LISTEN, as ``name=address,protocol`` joined with ";".
Pure. Listeners on one port share a socket; there is no port translation.
"""

from collections.abc import Iterable

from varnish_gateway.ir import wire
from varnish_gateway.ir.reserved import RELOAD_PORT, RELOAD_SOCKET


def varnish_listen(listeners: Iterable[wire.Listener], *, reload_port: int = RELOAD_PORT) -> str:
    """Return VARNISH_LISTEN, sorted by port, the loopback reload socket first."""
    sockets = {listener.socket: listener for listener in listeners}
    ordered = sorted(sockets.values(), key=lambda listener: (listener.port, listener.socket))
    return ";".join(
        [
            f"{RELOAD_SOCKET}=127.0.0.1:{reload_port},http",
            *(f"{listener.socket}=:{listener.port},{listener.scheme}" for listener in ordered),
        ]
    )
