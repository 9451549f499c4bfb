"""Which process listens on a port.

In:   a TCP port.
Out:  words for a message: the process, or at least its user. Only root sees the processes of other users.
"""

import contextlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from varnish_gateway.dataplane.process.drain import TABLES

LISTENING = "0A"
PROC = Path("/proc")
_SOCKET = re.compile(r"socket:\[(\d+)\]")


class ListeningSocket(NamedTuple):
    """A row of /proc/net/tcp."""

    port: int
    user: int
    inode: int


def holder(port: int) -> str:
    """Return `` by process 4711 (nginx)``, less where less is visible, "" if nothing listens there."""
    sockets = [socket for socket in _listening() if socket.port == port]
    if not sockets:
        return ""
    for pid in _processes({socket.inode for socket in sockets}):
        with contextlib.suppress(OSError):  # it has ended since
            return f" by process {pid} ({(PROC / str(pid) / 'comm').read_text().strip()})"
    return f" by a process of user {sockets[0].user}"


def _listening() -> Iterator[ListeningSocket]:
    for table in TABLES:
        if table.exists():
            yield from listening(table.read_text().splitlines()[1:])


def listening(rows: Iterable[str]) -> Iterator[ListeningSocket]:
    """Parse rows of /proc/net/tcp: number, local address, remote address, state, …, user, …, inode and more."""
    for row in rows:
        _, local, _, state, _, _, _, user, _, inode, *_ = row.split()
        if state == LISTENING:
            yield ListeningSocket(int(local.rpartition(":")[2], 16), int(user), int(inode))


def _processes(inodes: set[int]) -> Iterator[int]:
    """Yield the processes that hold one of the sockets, the oldest number first: children inherit sockets."""
    for pid in sorted(int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()):
        with contextlib.suppress(OSError):  # it has ended, or belongs to another user
            if any(inode in inodes for inode in _sockets(PROC / str(pid) / "fd")):
                yield pid


def _sockets(directory: Path) -> Iterator[int]:
    for entry in directory.iterdir():
        with contextlib.suppress(OSError):  # closed since it was listed
            if found := _SOCKET.fullmatch(str(entry.readlink())):
                yield int(found[1])
