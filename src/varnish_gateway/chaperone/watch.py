"""Tell when something near a path changes.

In:   paths of files and directories, which need not exist yet.
Out:  one item per burst of changes in the directories that hold them, renames and the symlink
swaps of mounted ConfigMaps included.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

from asyncinotify import Inotify, Mask

BURST_SECONDS = 0.005
_CHANGES = Mask.CLOSE_WRITE | Mask.MOVED_TO | Mask.MOVED_FROM | Mask.DELETE | Mask.CREATE | Mask.ONLYDIR


async def bursts(paths: Callable[[], Iterable[Path]]) -> AsyncIterator[None]:
    """Yield once when watching has begun, and then after every burst of changes."""
    with Inotify() as inotify:
        watched: set[Path] = set()
        while True:
            # A watch that is set after a look misses nothing if the look is repeated after it.
            for directory in directories(paths()) - watched:
                inotify.add_watch(directory, _CHANGES)
                watched.add(directory)
            yield
            await inotify.get()
            watched = await _rest_of_burst(inotify, watched)


async def _rest_of_burst(inotify: Inotify, watched: set[Path]) -> set[Path]:
    """Take events until it is quiet; return the directories that are still there."""
    while True:
        try:
            async with asyncio.timeout(BURST_SECONDS):
                await inotify.get()
        except TimeoutError:
            return {directory for directory in watched if directory.is_dir()}


def directories(paths: Iterable[Path]) -> set[Path]:
    """Return the directories to watch: each path's own or its nearest one, and all below a directory."""
    found: set[Path] = set()
    for path in paths:
        parents = (parent for parent in path.absolute().parents if parent.is_dir())
        found.add(next(parents))
        if path.is_dir():
            found.add(path.absolute())
            found |= {child for child in path.absolute().rglob("*") if child.is_dir()}
    return found
