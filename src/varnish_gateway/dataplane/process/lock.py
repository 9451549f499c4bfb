"""One instance for each work directory.

In:   a work directory, and the option or variable that names it.
Out:  a lock while the body runs; BadSettings that names the holder if another instance has it.

The kernel holds the lock (flock) and drops it when the process ends, however it ends: a crash leaves
no stale lock. The file stays, because a lock on a deleted file would exclude no one. Its text names the
holder for the message.
"""

import contextlib
import fcntl
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from varnish_gateway import errors

LOCK_FILE = "lock"


@contextlib.contextmanager
def exclusive(directory: Path, variable: str) -> Iterator[None]:
    """Hold the directory while the body runs; raise BadSettings if another process holds it."""
    descriptor = _open(directory, variable)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise errors.BadSettings(
                f"{variable}: {directory} is in use by {_holder(descriptor)}; stop it, or choose another directory"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()} {shlex.join(sys.argv)}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def is_abandoned(directory: Path) -> bool:
    """Whether a process held the directory once, and none does now."""
    try:
        with (directory / LOCK_FILE).open("rb") as file:
            if not file.read(1):
                return False  # a process has created the file and is about to lock it: stay out of its way
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _open(directory: Path, variable: str) -> int:
    path = directory / LOCK_FILE
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise errors.BadSettings(f"{variable}: can't open {path}: {error.strerror}") from None


def _holder(descriptor: int) -> str:
    """Return the process that the file names; another one may hold the lock by now, or not have written yet."""
    pid, _, command = os.pread(descriptor, 4096, 0).decode(errors="replace").strip().partition(" ")
    return f"process {pid} ({command})" if pid else "another process"
