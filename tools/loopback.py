"""Ports of this machine."""

import errno
import random
import socket

RANGE = (10_000, 32_000)
"""Below the ephemeral ports: an outgoing connection could occupy one of those before the caller listens on it."""


def free_port() -> int:
    """Return a port of 127.0.0.1 that is free at the moment."""
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
