"""Tell when something near a path changes.

In:   paths of files and directories, which need not exist yet.
Out:  one item per burst of changes in the directories that hold them, or what symbolic links
lead to; renames and the symlink swaps of mounted ConfigMaps included.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

from asyncinotify import Inotify, Mask

from varnish_gateway.runtime.paths import Way, below, places

BURST_SECONDS = 0.005
_CHANGES = (
    Mask.CLOSE_WRITE | Mask.MOVED_TO | Mask.MOVED_FROM | Mask.DELETE | Mask.CREATE | Mask.MOVE_SELF | Mask.ONLYDIR
)


async def bursts(paths: Callable[[], Iterable[Path]]) -> AsyncIterator[None]:
    """Yield once when watching has begun, and then after every burst of changes."""
    with Inotify() as inotify:
        while True:
            # A watch that is set after a look misses nothing if the look is repeated after it.
            _watch_only(inotify, directories(paths()))
            yield
            await inotify.get()
            await _rest_of_burst(inotify)


def _watch_only(inotify: Inotify, wanted: set[Path]) -> None:
    """Watch these directories, and no other; what has the path of one may be another since the last time."""
    kept: set[int] = set()
    for directory in wanted:
        # Its end is told as well; one that a link only passes through need not be ours to read.
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            kept.add(inotify.add_watch(directory, _CHANGES).wd)
    for watch in inotify.watches:
        if watch.wd not in kept:
            with contextlib.suppress(OSError):  # it ended by itself
                inotify.rm_watch(watch)


async def _rest_of_burst(inotify: Inotify) -> None:
    """Take events until it is quiet."""
    with contextlib.suppress(TimeoutError):
        while True:
            async with asyncio.timeout(BURST_SECONDS):
                await inotify.get()


def directories(paths: Iterable[Path]) -> set[Path]:
    """Return the directories to watch: each path's own or its nearest one, and all below a directory.

    A symbolic link changes in the directory that holds it, and what it leads to in another one.
    """
    known: dict[str, Way] = {}
    found: set[str] = set()
    for path in paths:
        absolute = str(path.absolute())
        found |= _around(absolute, known)
        if path.is_dir():
            found.add(absolute)
        for entry in below(absolute):
            if entry.is_symlink():
                found |= _around(entry.path, known)
            elif entry.is_dir():
                found.add(entry.path)
    return set(map(Path, found))


def _around(path: str, known: dict[str, Way]) -> set[str]:
    return {directory for directory, _ in places(path, known)}
