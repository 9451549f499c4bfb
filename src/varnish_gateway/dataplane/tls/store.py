"""HAProxy's files on disk: nobody but us reads them.

In:   the whole of what is to be there.
Out:  a directory that holds that and nothing else; only what differs is written.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from varnish_gateway.dataplane.process.workdir import write_private
from varnish_gateway.dataplane.tls import openssl
from varnish_gateway.emit.routing import content_hash

PID_FILE = "haproxy.pid"
"""Tells a later process of a HAProxy that was left behind."""
MASTER_SOCKET = "master.sock"
OWNER_ONLY = 0o700


class Store:
    """Owns a directory. What an earlier process left there is removed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._written: dict[str, str] = {}
        directory.mkdir(mode=OWNER_ONLY, exist_ok=True)
        directory.chmod(OWNER_ONLY)
        for path in directory.iterdir():
            if path.name != PID_FILE:
                path.unlink()

    def write(self, files: Mapping[str, bytes]) -> None:
        """Have these files, and no others."""
        for name, content in files.items():
            mark = content_hash(content)
            if self._written.get(name) != mark:
                write_private(self.directory / name, content)
                self._written[name] = mark
        for name in self._written.keys() - files.keys():
            (self.directory / name).unlink(missing_ok=True)
            del self._written[name]

    def forget_sockets(self, but: str) -> None:
        """Remove the admin sockets of configurations that serve no more."""
        for path in self.directory.glob("*.sock"):
            if path.name not in (but, MASTER_SOCKET):
                path.unlink(missing_ok=True)

    def check(self, content: bytes) -> None:
        """Raise BadDocument if OpenSSL does not take a certificate with its key; it only reads files."""
        path = self.directory / f".check-{os.getpid()}"
        write_private(path, content)
        try:
            openssl.check_pair(path)
        finally:
            path.unlink()
