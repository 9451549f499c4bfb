"""Where paths lead, and what lies below them.

In:   paths, whether there is something or not.
Out:  the places where a change can make a path lead to something else; what lies below a directory.
What goes away while it is looked at counts as not there.
"""

# ruff: noqa: PTH100, PTH112, PTH115, PTH116, PTH118, PTH120  strings: with thousands of files Path objects cost more than the work on them

import os
from collections.abc import Iterator
from typing import NamedTuple

Place = tuple[str, str]
"""A directory and a name in it."""

Signature = tuple[int, int, int, int]
"""Device, inode, size and time of the last change of a file."""


class Way(NamedTuple):
    """Where a path leads, without symbolic links, and the links that it leads through."""

    end: str
    links: tuple[str, ...] = ()


def places(path: str, known: dict[str, Way]) -> Iterator[Place]:
    """Yield where a link on the way to path, or what it leads to, can be replaced.

    ``known`` keeps what was found out, for other paths at the same moment.
    """
    try:
        start = os.path.abspath(path)
    except FileNotFoundError:
        return  # the working directory is gone
    way = _follow(start, known)
    yield from map(os.path.split, way.links)
    yield nearest_directory(way.end)


def _follow(path: str, known: dict[str, Way]) -> Way:
    if path not in known:
        known[path] = Way(path)  # where links lead in a circle, they end
        known[path] = _next_step(path, known)
    return known[path]


def _next_step(path: str, known: dict[str, Way]) -> Way:
    parent, name = os.path.split(path)
    if parent == path:
        return Way(path)
    above = _follow(parent, known)
    if name in ("", "."):
        return above
    if name == "..":
        return Way(os.path.dirname(above.end), above.links)
    here = os.path.join(above.end, name)
    try:
        target = os.readlink(here)
    except OSError:  # no link, or nothing at all
        return Way(here, above.links)
    beyond = _follow(os.path.join(above.end, target), known)
    return Way(beyond.end, (*above.links, here, *beyond.links))


def signature_of(path: str) -> Signature | None:
    """Return what differs between two contents of a file, None where there is none; device and inode come first."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def nearest_directory(path: str) -> Place:
    """Return the nearest directory above path that exists, and the name in it that leads to path."""
    parent, name = os.path.split(path)
    parent = parent or "."
    return (parent, name) if os.path.isdir(parent) or parent == path else nearest_directory(parent)


def below(directory: str) -> Iterator[os.DirEntry[str]]:
    """Yield what lies below a directory and is not hidden; symbolic links are not entered."""
    try:
        with os.scandir(directory) as listing:
            entries = list(listing)
    except OSError:
        return  # it is gone, or may not be listed
    for entry in entries:
        if entry.name.startswith("."):
            continue
        yield entry
        if entry.is_dir(follow_symlinks=False):
            yield from below(entry.path)
