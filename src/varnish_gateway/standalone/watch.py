"""Notice changes of manifests under the paths that a person gave.

In:   paths of files and directories.
Out:  the manifests there, and from then on sets of those that may have changed.

A plain write, rename or removal of a manifest names that file alone. Everything else that
can change what lies under the paths (directories, symbolic links, a lost event) is answered
by looking at the whole tree again and comparing inode, size and time of every file.

Files are read when their writer closes them or renames them into place, never while they
are being written: one that a look finds to be another, and that nobody closed, is named when
it has been the same for ``ABSENCE``. Events that follow one another closely come out as one set; a single
one waits ``SETTLE`` and no longer. A file that is gone is named when it has stayed away for
``ABSENCE``, as git and some editors remove a file in order to write it anew; together with
a file that is new it is named at once: the two may be one that was renamed.
"""

# ruff: noqa: PTH110, PTH116, PTH118  strings: with thousands of files Path objects cost more than the work on them

import asyncio
import errno
import os
import stat
from collections.abc import Collection, Iterable, Mapping
from typing import Self

from asyncinotify import Event, Inotify, Mask

from varnish_gateway import errors
from varnish_gateway.standalone.tree import Tree, is_manifest, nearest_directory, scan

SETTLE = 0.002
LONGEST_BURST = 0.05
ABSENCE = 0.5
_FINISHED = Mask.CLOSE_WRITE | Mask.MOVED_TO
_WRITTEN = _FINISHED | Mask.ATTRIB  # with other permissions it may be readable
_REMOVED = Mask.DELETE | Mask.MOVED_FROM
_LOST = Mask.Q_OVERFLOW | Mask.DELETE_SELF | Mask.MOVE_SELF | Mask.UNMOUNT | Mask.IGNORED
_EVENTS = _WRITTEN | _REMOVED | Mask.CREATE | Mask.DELETE_SELF | Mask.MOVE_SELF

Signature = tuple[int, int, int, int]


class Watcher:
    """Watches until it is closed. Use as a context manager."""

    def __init__(self, roots: Iterable[str]) -> None:
        self._roots = [os.path.normpath(root) for root in roots]
        self._inotify = Inotify(cache_size=256, sync_timeout=0)
        self._watched: dict[str, int] = {}  # directory → descriptor
        self._directories: dict[int, list[str]] = {}  # descriptor → directory, by all its names
        self._returns: dict[int, set[str]] = {}  # descriptor → names by which a root can come back
        self._targets: dict[int, set[str]] = {}  # descriptor → names that symbolic links lead to
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
        self._told -= due
        self._told |= there
        # One that is being written just now will be told when it is closed.
        return there | {path for path in due if not os.path.exists(path)}

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
                self._forget(event)
                look_again = True
                continue
            if (path := self._path(event)) is None:
                continue
            if event.mask & _FINISHED:
                finished.add(path)
            if self._is_plain(event, path):
                if self._tells(event, path):
                    files.add(path)
                    look_again |= self._is_named(event, self._targets)
            else:
                look_again |= self._matters(event, path)
        for path in files:
            self._note(path)
            self._unfinished.pop(path, None)
        return files | self._look_for_finished(finished) if look_again else files

    def _tells(self, event: Event, path: str) -> bool:
        """Whether an event about a plain manifest is the end of a change; keep it back where it may not be."""
        if event.mask & _FINISHED:
            return True
        if not event.mask & Mask.ATTRIB:
            return bool(event.mask & _REMOVED) and not os.path.exists(path)
        if path in self._unfinished or _signature(path) != self._signatures.get(path):
            self._unfinished[path] = asyncio.get_running_loop().time() + ABSENCE
        return path not in self._unfinished

    def _look_for_finished(self, finished: Iterable[str]) -> set[str]:
        """Return the files that differ; keep back those that were written in place and that nobody closed."""
        before = self._signatures
        differing = self._look()
        closed = {signature[:2] for path in finished if (signature := _signature(path)) is not None}
        end = asyncio.get_running_loop().time() + ABSENCE
        for path in list(differing):
            was, now = before.get(path), self._signatures.get(path)
            if was is not None and now is not None and was[:2] == now[:2] and now[:2] not in closed:
                self._unfinished[path] = end
                differing.remove(path)
        return differing

    def _path(self, event: Event) -> str | None:
        names = self._directories.get(event.watch.wd) if event.watch else None
        # The same directory by another name: events carry the name that came first.
        return os.path.join(names[0], str(event.name)) if names and event.name else None

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

    def _forget(self, event: Event) -> None:
        """Stop watching a directory that went away or moved: it is found again by its path, if at all."""
        if event.watch is None or event.watch.wd not in self._directories:
            return
        for directory in self._directories.pop(event.watch.wd):
            del self._watched[directory]
        if event.mask & Mask.MOVE_SELF:
            self._inotify.rm_watch(event.watch)

    def _look(self) -> set[str]:
        """Compare the tree with what was known; return the files that differ."""
        is_settled = False
        while not is_settled:
            self._tree = scan(self._roots)
            roots = dict.fromkeys(map(nearest_directory, self._roots))
            targets = dict.fromkeys(
                os.path.split(os.path.realpath(path)) for path in self._tree.files if _is_link(path)
            )
            outside = [directory for directory, _ in (*roots, *targets)]
            # Listed before it was watched, a directory may have changed in between.
            is_settled = not self._watch([*self._tree.directories, *outside])
        self._returns, self._targets = self._by_descriptor(roots), self._by_descriptor(targets)
        before, self._signatures = self._signatures, {}
        for path in list(self._tree.files):
            self._note(path)
        after = self._signatures
        return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}

    def _by_descriptor(self, places: Iterable[tuple[str, str]]) -> dict[int, set[str]]:
        names: dict[int, set[str]] = {}
        for directory, name in places:
            if directory in self._watched:
                names.setdefault(self._watched[directory], set()).add(name)
        return names

    def _watch(self, directories: Iterable[str]) -> bool:
        """Watch the directories that are not watched yet; say whether there were any."""
        before = len(self._watched)
        for directory in directories:
            if directory in self._watched:
                continue
            try:
                watch = self._inotify.add_watch(directory, _EVENTS | Mask.ONLYDIR)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                raise _explained(error, directory) from None
            self._watched[directory] = watch.wd
            self._directories.setdefault(watch.wd, []).append(directory)
        return len(self._watched) > before

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
