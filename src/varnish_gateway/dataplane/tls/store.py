"""HAProxy's files on disk, readable by their owner alone.

In:   all files that should exist.
Out:  a directory with these files and no others; only files that differ are written.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from varnish_gateway.dataplane.process.workdir import write_private
from varnish_gateway.dataplane.tls import openssl
from varnish_gateway.emit.routing import content_hash

PID_FILE = "haproxy.pid"
"""Lets a later process find a HAProxy that was left behind."""
MASTER_SOCKET = "master.sock"
OWNER_ONLY = 0o700


class HaproxyFiles:
    """Owns a directory. Files of an earlier process are removed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._written: dict[str, str] = {}
        directory.mkdir(mode=OWNER_ONLY, exist_ok=True)
        directory.chmod(OWNER_ONLY)
        for path in directory.iterdir():
            if path.name != PID_FILE:
                path.unlink()

    def write(self, files: Mapping[str, bytes]) -> None:
        """Ensure these files, and no others."""
        for name, content in files.items():
            mark = content_hash(content)
            if self._written.get(name) != mark:
                write_private(self.directory / name, content)
                self._written[name] = mark
        for name in self._written.keys() - files.keys():
            (self.directory / name).unlink(missing_ok=True)
            del self._written[name]

    def remove_sockets(self, but: str) -> None:
        """Remove the admin sockets of former configurations."""
        for path in self.directory.glob("*.sock"):
            if path.name not in (but, MASTER_SOCKET):
                path.unlink(missing_ok=True)

    def check(self, content: bytes) -> None:
        """Raise BadDocument if OpenSSL rejects a certificate with its key; OpenSSL only reads files."""
        path = self.directory / f".check-{os.getpid()}"
        write_private(path, content)
        try:
            openssl.check_pair(path)
        finally:
            path.unlink()
