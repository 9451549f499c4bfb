"""HAProxy's files on disk, readable by their owner alone.

In:   all files that should exist.
Out:  a directory with these files and no others; only files that differ are written.
"""

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from varnish_gateway.dataplane.process.workdir import write_private
from varnish_gateway.dataplane.tls import openssl
from varnish_gateway.emit.haproxy import DIRECTORY
from varnish_gateway.emit.routing import content_hash

PID_FILE = "haproxy.pid"
"""Lets a later process find a HAProxy that was left behind."""
OWNER_ONLY = 0o700


class HaproxyFiles:
    """Owns a directory. Files of an earlier process are removed; ``remove`` leaves none to a later one."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._written: dict[str, str] = {}
        directory.mkdir(mode=OWNER_ONLY, exist_ok=True)
        directory.chmod(OWNER_ONLY)
        remove_keys(directory)

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

    def remove(self) -> None:
        """Remove all files: HAProxy has ended, and private keys do not stay on disk."""
        remove_keys(self.directory)
        self._written.clear()

    def remove_sockets(self, but: Collection[str]) -> None:
        """Remove the admin sockets of former configurations."""
        for path in self.directory.glob("*.sock"):
            if path.name not in but:
                path.unlink(missing_ok=True)

    def check(self, content: bytes) -> None:
        """Raise BadDocument if OpenSSL rejects a certificate with its key; OpenSSL only reads files."""
        path = self.directory / f".check-{os.getpid()}"
        write_private(path, content)
        try:
            openssl.check_pair(path)
        finally:
            path.unlink()


def remove_leftover_keys(work_dir: Path) -> None:
    """Remove the private keys that a killed process left in its work directory."""
    remove_keys(work_dir / DIRECTORY)


def remove_keys(directory: Path) -> None:
    """Remove what HAProxy read, private keys above all; the pid file still finds a HAProxy that was left behind."""
    for path in directory.iterdir() if directory.is_dir() else ():
        if path.name != PID_FILE:
            path.unlink(missing_ok=True)
