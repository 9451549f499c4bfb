"""What a gateway reserves for itself: ports, socket names and arguments of varnishd.

Translation rejects what would clash with these facts, manifests and VARNISH_LISTEN spell them out,
and the data plane opens them. All of them read this module.
"""

RELOAD_PORT = 1969
"""On loopback: ghost reloads its configuration, and reports its counters."""
ADMIN_PORT = 6082
"""On loopback: varnishd connects to the chaperone and takes commands."""
HEALTH_PORT = 8081
DASHBOARD_PORT = 9000
RESERVED_PORTS = frozenset({RELOAD_PORT, ADMIN_PORT, HEALTH_PORT, DASHBOARD_PORT})
"""Ports that no listener can have."""

RELOAD_SOCKET = "ghost-reload"
PLAIN_SCHEME = "http"
TLS_SCHEME = "https"
LATER = "later"
"""In the name of a socket: it takes the requests of all ports of a scheme that opened while varnishd runs.

ghost derives the name of the port's own socket from the scheme and from the port in the PROXY header.
"""

TLS_DIRECTORY = "tls"
"""The TLS terminator's files with private keys, below the work directory."""
OWN_ARGUMENTS = ("-M", "-S", "-F", "-f", "-n")
"""Arguments of varnishd that the data plane sets itself. Users can't set them."""


def socket_name(scheme: str, place: int | str) -> str:
    """Return the name of the socket that serves a port.

    ghost recognises by the name that TLS was terminated before varnishd.
    """
    return f"{scheme}-{place}"


def proxy_socket(port: int) -> str:
    """Return the file of the Unix socket that takes a port's requests from the TLS terminator."""
    return _socket_file(socket_name(TLS_SCHEME, port))


def later_socket(scheme: str) -> str:
    """Return the file of the Unix socket that takes the requests of ports which opened while varnishd runs."""
    return _socket_file(socket_name(scheme, LATER))


def _socket_file(name: str) -> str:
    return f"{name}.sock"
