"""Report changes of manifests under the paths that the user gave.

In:   paths of files and directories.
Out:  the manifests there, and from then on sets of those that may have changed.

A plain write, rename or removal of a manifest names that file alone. Every other event that can
change what lies under the paths (directories, symbolic links and their targets, a lost event)
makes the watcher scan the whole tree and compare inode, size and time of every file.

A file is reported when its writer closes it or renames it into place, never while it is being
written. A file that a scan finds changed or recreated, without such an event, is reported once it
has been stable for ``ABSENCE_SECONDS``. A removed file is reported when it has been absent for
``ABSENCE_SECONDS``, because git and some editors delete a file in order to write it again; if a
new file appears meanwhile, both are reported at once, because it may be a rename. Events that
follow one another closely are reported as one set; a single one waits ``QUIET_SECONDS``.
"""

# ruff: noqa: PTH110, PTH112, PTH113, PTH118  strings: with thousands of files Path objects cost more than the work on them

import asyncio
import os
import stat
from collections.abc import Collection, Iterable, Mapping
from typing import Self

from asyncinotify import Event, Mask

from varnish_gateway.runtime.inotify import DirectoryWatch
from varnish_gateway.runtime.paths import Place, Signature, Way, nearest_directory, places, signature_of
from varnish_gateway.standalone.files.tree import Tree, is_manifest, scan

QUIET_SECONDS = 0.002
LONGEST_BURST_SECONDS = 0.05
ABSENCE_SECONDS = 0.5
_FINISHED = Mask.CLOSE_WRITE | Mask.MOVED_TO
_WRITTEN = _FINISHED | Mask.ATTRIB  # new permissions may make it readable
_REMOVED = Mask.DELETE | Mask.MOVED_FROM
_LOST = Mask.Q_OVERFLOW | Mask.DELETE_SELF | Mask.MOVE_SELF | Mask.UNMOUNT | Mask.IGNORED
_EVENTS = _WRITTEN | _REMOVED | Mask.CREATE | Mask.DELETE_SELF | Mask.MOVE_SELF

_REPLACED: Signature = (0, 0, 0, 0)
"""Of a file that was removed: what has its path now is a different file."""


class Watcher:
    """Watches until it is closed. Use as a context manager."""

    def __init__(self, roots: Iterable[str]) -> None:
        self._roots = dict.fromkeys(map(os.path.normpath, roots))
        self._watch = DirectoryWatch(_EVENTS)
        self._returns: dict[int, set[str]] = {}  # descriptor → names by which a root can come back
        self._targets: dict[int, set[str]] = {}  # descriptor → names that symbolic links lead to or through
        self._tree = Tree()
        self._signatures: dict[str, Signature] = {}
        self._absent: dict[str, float] = {}  # removed file → when to report it
        self._unfinished: dict[str, float] = {}  # file that may be being written → when to report it
        try:
            self._scan()
        except BaseException:
            self._watch.close()
            raise
        self._reported = set(self._tree.files)

    @property
    def files(self) -> list[str]:
        """The manifests that exist."""
        return list(self._tree.files)

    @property
    def directories(self) -> Collection[str]:
        """The directories that are watched, by all their paths."""
        return self._watch.descriptors.keys()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.close()

    async def changed(self) -> set[str]:
        """Wait for changes; return the manifests that may be changed, new or deleted."""
        changed: set[str] = set()
        while not changed:
            events = await self._watch.burst(
                quiet_seconds=QUIET_SECONDS, longest_seconds=LONGEST_BURST_SECONDS, wait_seconds=self._next_report()
            )
            changed = self._without_absences(self._changed_by(events) | self._stable_by_now())
        return changed

    def rescan(self) -> set[str]:
        """Compare everything with the last scan; return all manifests, and those that stayed absent.

        One that may be being written is reported by ``changed``, once it is stable.
        """
        changed = self._scan_for_finished(()) | (self._tree.files.keys() - self._unfinished.keys())
        return self._without_absences(changed)

    def _next_report(self) -> float | None:
        """Return the seconds until a delayed file is due, None without one."""
        due = [*self._absent.values(), *self._unfinished.values()]
        return max(0.0, min(due) - asyncio.get_running_loop().time()) if due else None

    def _stable_by_now(self) -> set[str]:
        """Return the delayed files that have not changed since."""
        now = asyncio.get_running_loop().time()
        due = {path for path, end in self._unfinished.items() if end <= now}
        growing = {path for path in due if signature_of(path) != self._signatures.get(path)}
        for path in growing:
            self._update_signature(path)
            self._unfinished[path] = now + ABSENCE_SECONDS
        for path in due - growing:
            del self._unfinished[path]
        return due - growing

    def _without_absences(self, changed: set[str]) -> set[str]:
        """Delay removed files, which may return in a moment; add those that stayed absent."""
        now = asyncio.get_running_loop().time()
        present = {path for path in changed if path in self._tree.files}
        for path in present:
            self._absent.pop(path, None)
        for path in changed - present:
            self._absent.setdefault(path, now + ABSENCE_SECONDS)
        has_new = not present <= self._reported
        due = {path for path, end in self._absent.items() if has_new or end <= now}
        for path in due:
            del self._absent[path]
        # One that is being written at this moment is reported when its writer closes it.
        deleted = {path for path in due if not os.path.isfile(path)}
        self._reported -= deleted
        self._reported |= present
        return present | deleted

    # -- events --------------------------------------------------------------------------

    def _changed_by(self, events: Iterable[Event]) -> set[str]:
        """Return the files that events name; scan everything where events are not enough."""
        files: set[str] = set()
        finished: set[str] = set()
        needs_scan = False
        for event in events:
            if event.mask & _LOST:
                needs_scan |= self._is_unexpected(event)
                continue
            paths = self._paths(event)
            if event.mask & _FINISHED:
                finished |= paths
            if plain := {path for path in paths if self._is_plain(event, path)}:
                complete = {path for path in plain if self._is_complete(event, path)}
                files |= complete
                needs_scan |= bool(complete) and self._is_named(event, self._targets)
            else:
                needs_scan |= any(self._may_change_tree(event, path) for path in paths)
        for path in files:
            self._update_signature(path)
            self._unfinished.pop(path, None)
        return files | self._scan_for_finished(finished) if needs_scan else files

    def _is_unexpected(self, event: Event) -> bool:
        """Whether a watch was lost that the watcher did not remove itself."""
        return event.watch is None or event.watch.wd in self._watch.directories

    def _is_complete(self, event: Event, path: str) -> bool:
        """Whether an event about a plain manifest ends a change; delay the file where it may not."""
        if event.mask & _FINISHED:
            return True
        if not event.mask & Mask.ATTRIB:
            if path in self._signatures:
                self._signatures[path] = _REPLACED
            return bool(event.mask & _REMOVED) and not os.path.exists(path)
        if path in self._unfinished or signature_of(path) != self._signatures.get(path):
            self._unfinished[path] = asyncio.get_running_loop().time() + ABSENCE_SECONDS
        return path not in self._unfinished

    def _paths(self, event: Event) -> set[str]:
        """Return all paths that an event's file may have in the tree."""
        if event.watch is None or event.name is None:
            return set()
        paths: set[str] = set()
        for directory in self._watch.directories.get(event.watch.wd, ()):
            path = os.path.join(directory, str(event.name))
            is_listed = directory in self._tree.directories
            if is_listed:
                paths.add(path)
            if not is_listed or os.path.normpath(path) in self._roots:
                paths.add(os.path.normpath(path))
        return paths

    def _is_plain(self, event: Event, path: str) -> bool:
        """Whether an event concerns one manifest and nothing else."""
        directory, name = os.path.split(path)
        is_ours = path in self._tree.files or (is_manifest(name) and (directory or ".") in self._tree.directories)
        if not is_ours or event.mask & Mask.ISDIR:
            return False
        return bool(event.mask & Mask.DELETE) or not _is_link(path)

    def _may_change_tree(self, event: Event, path: str) -> bool:
        """Whether an event that does not concern a plain manifest may change the tree."""
        if self._is_named(event, self._returns) or self._is_named(event, self._targets):
            return True
        directory, name = os.path.split(path)
        if (directory or ".") not in self._tree.directories:
            return False
        # A ConfigMap mount replaces all its files at once by renaming "..data".
        return (
            bool(event.mask & Mask.ISDIR) or name.startswith("..") or path in self._tree.directories or _is_link(path)
        )

    @staticmethod
    def _is_named(event: Event, names: Mapping[int, Collection[str]]) -> bool:
        return event.watch is not None and str(event.name) in names.get(event.watch.wd, ())

    # -- scans ---------------------------------------------------------------------------

    def _scan_for_finished(self, finished: Collection[str]) -> set[str]:
        """Return the files that differ; delay those that may be being written, as no event closed them."""
        before = self._signatures
        # A file may have left the tree earlier and be reported only now.
        differing = self._scan() | (self._reported - self._tree.files.keys())
        closed = {signature[:2] for path in finished if (signature := signature_of(path)) is not None}
        moved_in = tuple(path + os.sep for path in finished if os.path.isdir(path))
        unfinished = {
            path
            for path in differing
            if self._may_grow(path, before.get(path))
            and self._signatures[path][:2] not in closed
            and not path.startswith(moved_in)
        }
        self._unfinished |= dict.fromkeys(unfinished, asyncio.get_running_loop().time() + ABSENCE_SECONDS)
        return differing - unfinished

    def _may_grow(self, path: str, was: Signature | None) -> bool:
        """Whether a file that differs was written in place, or recreated after its removal."""
        if (now := self._signatures.get(path)) is None:
            return False
        if was in (None, _REPLACED):
            return path in self._reported and not _is_link(path)
        return was[:2] == now[:2]

    def _scan(self) -> set[str]:
        """Compare the tree with the last scan; return the files that differ."""
        is_complete = False
        while not is_complete:
            self._tree = scan(self._roots)
            known: dict[str, Way] = {}
            returns = {place for root in self._roots for place in (nearest_directory(root), *places(root, known))}
            targets = {place for link in self._tree.links for place in places(link, known)}
            outside = (directory for directory, _ in returns | targets)
            # A directory that was listed before it was watched may have changed in between.
            is_complete = not self._watch.watch_only({*self._tree.directories, *outside})
        self._returns, self._targets = self._by_descriptor(returns), self._by_descriptor(targets)
        before, self._signatures = self._signatures, {}
        for path in list(self._tree.files):
            self._update_signature(path)
        after = self._signatures
        return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}

    def _by_descriptor(self, places: Iterable[Place]) -> dict[int, set[str]]:
        names: dict[int, set[str]] = {}
        for directory, name in places:
            if directory in self._watch.descriptors:
                names.setdefault(self._watch.descriptors[directory], set()).add(name)
        return names

    def _update_signature(self, path: str) -> None:
        """Remember the current signature of a file, and whether it exists."""
        if (signature := signature_of(path)) is None:
            self._signatures.pop(path, None)
            self._tree.files.pop(path, None)
            return
        self._signatures[path] = signature
        self._tree.files[path] = None


def _is_link(path: str) -> bool:
    """Whether this is a symbolic link or a second hard link: both appear without a write."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISLNK(status.st_mode) or (stat.S_ISREG(status.st_mode) and status.st_nlink > 1)
