"""One cluster on a machine at a time.

The lock is the kernel's (flock) on one file. Whoever makes a cluster takes it and hands it on to the
node's first process, so it is held for exactly as long as the node lives, however that ends. The file
names its holder.
"""

import fcntl
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from cluster.errors import ClusterError
from cluster.layout import LOCK


class Held(ClusterError):
    """Somebody else has a cluster on this machine."""


def acquire(path: Path = LOCK, *, wait: float = 0.0, waiting: Callable[[str], None] | None = None) -> IO[str]:
    """Return the locked file, or raise Held; ``waiting`` is called once with the holder if there is time to wait."""
    deadline = time.monotonic() + wait
    notified = False
    while (file := _try(path)) is None:
        if time.monotonic() >= deadline:
            raise Held(f"there is a cluster on this machine: {describe(holder(path))}")
        if waiting and not notified:
            waiting(describe(holder(path)))
            notified = True
        time.sleep(0.2)
    return file


def _try(path: Path) -> IO[str] | None:
    """Return the locked file, None if another process has it."""
    while True:
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600), "r+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        if _is_at(file, path):
            return file
        file.close()  # its holder removed the file before releasing it


def _is_at(file: IO[str], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def sign(file: IO[str], **facts: Any) -> None:
    """Write who holds the lock."""
    file.seek(0)
    file.truncate()
    json.dump({"since": time.strftime("%F %T"), **facts}, file)
    file.flush()


def remove(file: IO[str], path: Path = LOCK) -> None:
    """Give the lock back and leave no file behind."""
    path.unlink(missing_ok=True)
    file.close()


def is_held(path: Path = LOCK) -> bool:
    """Whether there is a cluster."""
    if not path.exists():
        return False
    if (file := _try(path)) is None:
        return True
    file.close()
    return False


def holder(path: Path = LOCK) -> dict[str, Any]:
    """Return what the holder wrote; nothing if it has not yet."""
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError):
        return {}


def describe(facts: dict[str, Any]) -> str:
    """Say who holds the lock."""
    if not facts:
        return "a process that is just starting it"
    return f"process {facts.get('node')}, started {facts.get('since')} from {facts.get('root')}"
