"""Notice changes of manifests under the paths that a person gave.

In:   paths of files and directories.
Out:  the manifests there, and from then on sets of those that may have changed.

A plain write, rename or removal of a manifest names that file alone. Everything else that
can change what lies under the paths (directories, symbolic links and what they lead through, a
lost event) is answered by looking at the whole tree again and comparing inode, size and time of
every file.

Files are read when their writer closes them or renames them into place, never while they
are being written: one that a look finds to be another, or to be back, and that nobody closed, is
named when it has been the same for ``ABSENCE``. Events that follow one another closely come out as
one set; a single one waits ``SETTLE`` and no longer. A file that is gone is named when it has
stayed away for ``ABSENCE``, as git and some editors remove a file in order to write it anew;
together with a file that is new it is named at once: the two may be one that was renamed.
"""

# ruff: noqa: PTH110, PTH112, PTH113, PTH116, PTH118  strings: with thousands of files Path objects cost more than the work on them

import asyncio
import contextlib
import errno
import logging
import os
import stat
from collections.abc import Collection, Iterable, Mapping
from typing import Self

from asyncinotify import Event, Inotify, Mask

from varnish_gateway import errors
from varnish_gateway.runtime.paths import Place, Way, nearest_directory, places
from varnish_gateway.standalone.tree import Tree, is_manifest, scan

SETTLE = 0.002
LONGEST_BURST = 0.05
ABSENCE = 0.5
_FINISHED = Mask.CLOSE_WRITE | Mask.MOVED_TO
_WRITTEN = _FINISHED | Mask.ATTRIB  # with other permissions it may be readable
_REMOVED = Mask.DELETE | Mask.MOVED_FROM
_LOST = Mask.Q_OVERFLOW | Mask.DELETE_SELF | Mask.MOVE_SELF | Mask.UNMOUNT | Mask.IGNORED
_EVENTS = _WRITTEN | _REMOVED | Mask.CREATE | Mask.DELETE_SELF | Mask.MOVE_SELF

log = logging.getLogger(__name__)

Signature = tuple[int, int, int, int]
_REPLACED: Signature = (0, 0, 0, 0)
"""Of a file that was removed: what is there since then is another one."""


class Watcher:
    """Watches until it is closed. Use as a context manager."""

    def __init__(self, roots: Iterable[str]) -> None:
        self._roots = dict.fromkeys(map(os.path.normpath, roots))
        self._inotify = Inotify(cache_size=256, sync_timeout=0)
        self._watched: dict[str, int] = {}  # directory → descriptor
        self._directories: dict[int, list[str]] = {}  # descriptor → directory, by all its names
        self._returns: dict[int, set[str]] = {}  # descriptor → names by which a root can come back
        self._targets: dict[int, set[str]] = {}  # descriptor → names that symbolic links lead to or through
        self._tree = Tree()
        self._signatures: dict[str, Signature] = {}
        self._getting: asyncio.Future[Event] | None = None
        self._gone: dict[str, float] = {}  # file that is not there → when that is to be told
        self._unfinished: dict[str, float] = {}  # file that may be being written → when it is to be told
        try:
            self._look()
        except BaseException:
            self._inotify.close()
            raise
        self._told = set(self._tree.files)

    @property
    def files(self) -> list[str]:
        """The manifests that are there."""
        return list(self._tree.files)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._getting is not None:
            self._getting.cancel()
        self._inotify.close()

    async def changed(self) -> set[str]:
        """Wait for changes; return the manifests that may be different, new or gone."""
        changed: set[str] = set()
        while not changed:
            changed = self._without_absences(self._sort_out(await self._burst()) | self._finished_by_now())
        return changed

    def _finished_by_now(self) -> set[str]:
        """Return the files that were kept back and have stayed the same since."""
        now = asyncio.get_running_loop().time()
        due = {path for path, end in self._unfinished.items() if end <= now}
        growing = {path for path in due if _signature(path) != self._signatures.get(path)}
        for path in growing:
            self._note(path)
            self._unfinished[path] = now + ABSENCE
        for path in due - growing:
            del self._unfinished[path]
        return due - growing

    def _without_absences(self, changed: set[str]) -> set[str]:
        """Keep back the files that may return in a moment; add those that stayed away."""
        now = asyncio.get_running_loop().time()
        there = {path for path in changed if path in self._tree.files}
        for path in there:
            self._gone.pop(path, None)
        for path in changed - there:
            self._gone.setdefault(path, now + ABSENCE)
        has_new = not there <= self._told
        due = {path for path, end in self._gone.items() if has_new or end <= now}
        for path in due:
            del self._gone[path]
        # One that is being written just now will be told when it is closed.
        gone = {path for path in due if not os.path.isfile(path)}
        self._told -= gone
        self._told |= there
        return there | gone

    async def _burst(self) -> list[Event]:
        """One event and those that follow it closely; none when something kept back is to be told."""
        if (first := await self._next()) is None:
            return []
        events = [first]
        end = asyncio.get_running_loop().time() + LONGEST_BURST
        while asyncio.get_running_loop().time() < end:
            await asyncio.sleep(SETTLE)
            more = [event for event in iter(self._inotify.sync_get, None) if event is not None]
            if not more:
                break
            events += more
        return events

    async def _next(self) -> Event | None:
        """Wait for an event, but not beyond the time when something kept back is to be told."""
        if self._getting is None:
            # A task that outlives the wait: cancelled at the wrong moment, it would lose events.
            self._getting = asyncio.ensure_future(self._inotify.get())
        now = asyncio.get_running_loop().time()
        ends = [*self._gone.values(), *self._unfinished.values()]
        patience = max(0.0, min(ends) - now) if ends else None
        await asyncio.wait({self._getting}, timeout=patience)
        if not self._getting.done():
            return None
        got, self._getting = self._getting.result(), None
        return got

    def _sort_out(self, events: Iterable[Event]) -> set[str]:
        """Name the files that events are about; look at everything where they don't tell."""
        files: set[str] = set()
        finished: set[str] = set()
        look_again = False
        for event in events:
            if event.mask & _LOST:
                look_again |= self._is_news(event)
                continue
            paths = self._paths(event)
            if event.mask & _FINISHED:
                finished |= paths
            if plain := {path for path in paths if self._is_plain(event, path)}:
                told = {path for path in plain if self._tells(event, path)}
                files |= told
                look_again |= bool(told) and self._is_named(event, self._targets)
            else:
                look_again |= any(self._matters(event, path) for path in paths)
        for path in files:
            self._note(path)
            self._unfinished.pop(path, None)
        return files | self._look_for_finished(finished) if look_again else files

    def _is_news(self, event: Event) -> bool:
        """Whether a watch was lost; not if we took it away ourselves."""
        return event.watch is None or event.watch.wd in self._directories

    def _tells(self, event: Event, path: str) -> bool:
        """Whether an event about a plain manifest is the end of a change; keep it back where it may not be."""
        if event.mask & _FINISHED:
            return True
        if not event.mask & Mask.ATTRIB:
            if path in self._signatures:
                self._signatures[path] = _REPLACED
            return bool(event.mask & _REMOVED) and not os.path.exists(path)
        if path in self._unfinished or _signature(path) != self._signatures.get(path):
            self._unfinished[path] = asyncio.get_running_loop().time() + ABSENCE
        return path not in self._unfinished

    def _look_for_finished(self, finished: Collection[str]) -> set[str]:
        """Return the files that differ; keep back those that may be being written, as nobody closed them."""
        before = self._signatures
        # A file may have left the tree before, and gone only now.
        differing = self._look() | (self._told - self._tree.files.keys())
        closed = {signature[:2] for path in finished if (signature := _signature(path)) is not None}
        moved_in = tuple(path + os.sep for path in finished if os.path.isdir(path))
        unfinished = {
            path
            for path in differing
            if self._may_grow(path, before.get(path))
            and self._signatures[path][:2] not in closed
            and not path.startswith(moved_in)
        }
        self._unfinished |= dict.fromkeys(unfinished, asyncio.get_running_loop().time() + ABSENCE)
        return differing - unfinished

    def _may_grow(self, path: str, was: Signature | None) -> bool:
        """Whether a file that differs was written in place, or is there again after it was removed."""
        if (now := self._signatures.get(path)) is None:
            return False
        if was in (None, _REPLACED):
            return path in self._told and not _is_link(path)
        return was[:2] == now[:2]

    def _paths(self, event: Event) -> set[str]:
        """Return what an event is about, by all the names that it may have in the tree."""
        if event.watch is None or event.name is None:
            return set()
        paths: set[str] = set()
        for directory in self._directories.get(event.watch.wd, ()):
            path = os.path.join(directory, str(event.name))
            is_listed = directory in self._tree.directories
            if is_listed:
                paths.add(path)
            if not is_listed or os.path.normpath(path) in self._roots:
                paths.add(os.path.normpath(path))
        return paths

    def _is_plain(self, event: Event, path: str) -> bool:
        """Whether the event tells all about one manifest."""
        directory, name = os.path.split(path)
        is_ours = path in self._tree.files or (is_manifest(name) and (directory or ".") in self._tree.directories)
        if not is_ours or event.mask & Mask.ISDIR:
            return False
        return bool(event.mask & Mask.DELETE) or not _is_link(path)

    def _matters(self, event: Event, path: str) -> bool:
        """Whether an event that is not about a plain manifest may change the tree."""
        if self._is_named(event, self._returns) or self._is_named(event, self._targets):
            return True
        directory, name = os.path.split(path)
        if (directory or ".") not in self._tree.directories:
            return False
        # "..data" is how a ConfigMap mount swaps all its files at once
        return (
            bool(event.mask & Mask.ISDIR) or name.startswith("..") or path in self._tree.directories or _is_link(path)
        )

    @staticmethod
    def _is_named(event: Event, names: Mapping[int, Collection[str]]) -> bool:
        return event.watch is not None and str(event.name) in names.get(event.watch.wd, ())

    def _look(self) -> set[str]:
        """Compare the tree with what was known; return the files that differ."""
        is_settled = False
        while not is_settled:
            self._tree = scan(self._roots)
            known: dict[str, Way] = {}
            returns = {place for root in self._roots for place in (nearest_directory(root), *places(root, known))}
            targets = {place for link in self._tree.links for place in places(link, known)}
            outside = (directory for directory, _ in returns | targets)
            # Listed before it was watched, a directory may have changed in between.
            is_settled = not self._watch_only({*self._tree.directories, *outside})
        self._returns, self._targets = self._by_descriptor(returns), self._by_descriptor(targets)
        before, self._signatures = self._signatures, {}
        for path in list(self._tree.files):
            self._note(path)
        after = self._signatures
        return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}

    def _by_descriptor(self, places: Iterable[Place]) -> dict[int, set[str]]:
        names: dict[int, set[str]] = {}
        for directory, name in places:
            if directory in self._watched:
                names.setdefault(self._watched[directory], set()).add(name)
        return names

    def _watch_only(self, directories: Iterable[str]) -> bool:
        """Watch these directories and no other; say whether one was not watched before.

        Each is asked for anew: what has its path may be another one since the last time.
        """
        before, self._directories = self._directories, {}
        self._watched = {
            directory: watched for directory in directories if (watched := self._watch(directory)) is not None
        }
        for directory, watched in self._watched.items():
            self._directories.setdefault(watched, []).append(directory)
        for watch in self._inotify.watches:
            if watch.wd not in self._directories:
                with contextlib.suppress(OSError):  # it ended by itself
                    self._inotify.rm_watch(watch)
        return not self._directories.keys() <= before.keys()

    def _watch(self, directory: str) -> int | None:
        """Return the descriptor of a directory that is watched from now on, if it is there."""
        try:
            return self._inotify.add_watch(directory, _EVENTS | Mask.ONLYDIR).wd
        except (FileNotFoundError, NotADirectoryError):
            return None
        except PermissionError:
            # Links may lead through one that is not ours to list.
            log.warning("%s: can't be watched: what is replaced there is not noticed", directory)
            return None
        except OSError as error:
            raise _explained(error, directory) from None

    def _note(self, path: str) -> None:
        """Remember how a file looks now, and whether it is there."""
        if (signature := _signature(path)) is None:
            self._signatures.pop(path, None)
            self._tree.files.pop(path, None)
            return
        self._signatures[path] = signature
        self._tree.files[path] = None


def _signature(path: str) -> Signature | None:
    """Return what tells one content of a file from another; device and inode come first."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def _is_link(path: str) -> bool:
    """Tell a symbolic link or a second hard link: both come into being without a write."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISLNK(status.st_mode) or (stat.S_ISREG(status.st_mode) and status.st_nlink > 1)


def _explained(error: OSError, directory: str) -> errors.BadSettings:
    if error.errno == errno.ENOSPC:
        return errors.BadSettings(
            f"can't watch {directory}: the system's limit of watches is reached; raise fs.inotify.max_user_watches"
        )
    return errors.BadSettings(f"can't watch {directory}: {error.strerror}")
