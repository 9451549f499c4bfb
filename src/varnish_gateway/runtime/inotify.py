"""Watch directories for changes.

In:   directories, or paths of files and directories that need not exist yet.
Out:  ``DirectoryWatch`` returns the events in a set of directories, in bursts. ``bursts`` reports that
      something near a path changed, including renames and the symlink swaps of mounted ConfigMaps.
"""

import asyncio
import contextlib
import errno
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from asyncinotify import Event, Inotify, Mask

from varnish_gateway import errors
from varnish_gateway.runtime.paths import Way, below, places

QUIET_SECONDS = 0.005
_CHANGES = Mask.CLOSE_WRITE | Mask.MOVED_TO | Mask.MOVED_FROM | Mask.DELETE | Mask.CREATE | Mask.MOVE_SELF

log = logging.getLogger(__name__)


class DirectoryWatch:
    """Watches a set of directories until it is closed. Use as a context manager."""

    def __init__(self, events: Mask) -> None:
        self._events = events | Mask.ONLYDIR
        self._inotify = Inotify(cache_size=256, sync_timeout=0)
        self._descriptors: dict[str, int] = {}
        self._directories: dict[int, list[str]] = {}
        self._unwatchable: set[str] = set()
        self._getting: asyncio.Future[Event] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._getting is not None:
            self._getting.cancel()
        self._inotify.close()

    @property
    def descriptors(self) -> Mapping[str, int]:
        """The watch descriptor of each directory."""
        return self._descriptors

    @property
    def directories(self) -> Mapping[int, list[str]]:
        """The paths of each watch descriptor: one directory may have several."""
        return self._directories

    def watch_only(self, directories: Iterable[str]) -> bool:
        """Watch these directories and no others; return whether one of them was not watched before.

        Every watch is renewed, because the directory at a path may have been replaced.
        """
        before, self._directories = self._directories, {}
        self._descriptors = {
            directory: descriptor
            for directory in directories
            if (descriptor := self._descriptor(directory)) is not None
        }
        for directory, descriptor in self._descriptors.items():
            self._directories.setdefault(descriptor, []).append(directory)
        for watch in self._inotify.watches:
            if watch.wd not in self._directories:
                with contextlib.suppress(OSError):  # its directory was deleted
                    self._inotify.rm_watch(watch)
        return not self._directories.keys() <= before.keys()

    def _descriptor(self, directory: str) -> int | None:
        """Watch a directory; return None if it does not exist or may not be read."""
        try:
            return self._inotify.add_watch(directory, self._events).wd
        except (FileNotFoundError, NotADirectoryError):
            return None
        except PermissionError:
            # A symbolic link may lead through a directory that we may not list.
            if directory not in self._unwatchable:
                log.warning("can't watch %s: permission denied; changes there go unnoticed", directory)
                self._unwatchable.add(directory)
            return None
        except OSError as error:
            raise _explained(error, directory) from None

    async def burst(
        self, *, quiet_seconds: float, longest_seconds: float = float("inf"), wait_seconds: float | None = None
    ) -> list[Event]:
        """Return the next event with those that follow it closely; none after ``wait_seconds`` without an event.

        A burst ends when nothing happens for ``quiet_seconds``, or after ``longest_seconds``.
        """
        if (first := await self._next(wait_seconds)) is None:
            return []
        burst = [first]
        now = asyncio.get_running_loop().time
        end = now() + longest_seconds
        while now() < end:
            await asyncio.sleep(quiet_seconds)
            more = [event for event in iter(self._inotify.sync_get, None) if event is not None]
            if not more:
                break
            burst += more
        return burst

    async def _next(self, wait_seconds: float | None) -> Event | None:
        if self._getting is None:
            # A task that outlives the wait: cancelled at the wrong moment, it would lose events.
            self._getting = asyncio.ensure_future(self._inotify.get())
        await asyncio.wait({self._getting}, timeout=wait_seconds)
        if not self._getting.done():
            return None
        event, self._getting = self._getting.result(), None
        return event


def _explained(error: OSError, directory: str) -> errors.BadSettings:
    if error.errno == errno.ENOSPC:
        return errors.BadSettings(
            f"can't watch {directory}: the system's limit of watches is reached; raise fs.inotify.max_user_watches"
        )
    return errors.BadSettings(f"can't watch {directory}: {error.strerror}")


async def bursts(paths: Callable[[], Iterable[Path]], requested: asyncio.Event | None = None) -> AsyncIterator[None]:
    """Yield once when the watch is set, and then after every burst of changes, and when it is requested."""
    requested = requested or asyncio.Event()
    with DirectoryWatch(_CHANGES) as watch:
        while True:
            # A change between listing and watching a directory is found by the caller's next look.
            watch.watch_only(map(str, directories(paths())))
            requested.clear()
            yield
            await _first(watch.burst(quiet_seconds=QUIET_SECONDS), requested.wait())


async def _first(*waits: Coroutine[Any, Any, Any]) -> None:
    """Return when one of the waits is over; cancel the others."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def directories(paths: Iterable[Path]) -> set[Path]:
    """Return the directories to watch: each path's own or its nearest one, and all below a directory.

    A symbolic link changes in the directory that holds it, and its target in another one.
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
