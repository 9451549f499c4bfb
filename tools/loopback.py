"""Ports of this machine."""

import errno
import random
import socket

RANGE = (10_000, 32_000)
"""Below the ports that Linux gives to outgoing connections: one of those could take ours before we use it."""


def free_port() -> int:
    """Return a port at which nobody listens now."""
    while True:
        with socket.socket() as probe:
            port = random.randrange(*RANGE)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
            else:
                return port
