"""The resources that HAProxy may use on this machine."""

import os
import pwd
import resource
import socket as networking

from varnish_gateway.dataplane.process.sockets import Socket
from varnish_gateway.emit.haproxy import Machine

MOST_CONNECTIONS = 10_000
MOST_THREADS = 8
OTHER_DESCRIPTORS = 256
ACCOUNT = "haproxy"


def machine() -> Machine:
    """Return how many connections fit, each with one to varnishd, how many threads, and which user runs them."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    fitting = MOST_CONNECTIONS if most == resource.RLIM_INFINITY else (most - OTHER_DESCRIPTORS) // 2
    threads = min(MOST_THREADS, len(os.sched_getaffinity(0)))
    return Machine(max(100, min(MOST_CONNECTIONS, fitting)), threads, account())


def account() -> str | None:
    """Return the user that HAProxy's worker becomes; None: it keeps our own."""
    if os.geteuid() != 0:
        return None
    try:
        pwd.getpwnam(ACCOUNT)
    except KeyError:
        return None
    return ACCOUNT


def addresses(socket: Socket) -> tuple[str, ...]:
    """Return a TCP socket's addresses as HAProxy writes them; one without a host is every address, as in varnishd."""
    host, _, port = socket.address.rpartition(":")
    if host:
        family = "ipv6" if ":" in host else "ipv4"
        return (f"{family}@{host.strip('[]')}:{port}",) if host[0] in "[0123456789" else (f"{host}:{port}",)
    both = (f"ipv4@*:{port}", f"ipv6@[::]:{port}")
    return both if _has_ipv6() else both[:1]


def _has_ipv6() -> bool:
    try:
        with networking.socket(networking.AF_INET6, networking.SOCK_STREAM) as probe:
            probe.bind(("::", 0))
    except OSError:
        return False
    return True
