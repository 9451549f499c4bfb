"""Limits of the cgroup that we are in.

In:   the name of a controller, the names of its file in both versions of cgroups.
Out:  the smallest limit of our cgroup and its parents, as far as we see them. A container sees its own only.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

OWN_CGROUP = Path("/proc/self/cgroup")
CGROUPS = Path("/sys/fs/cgroup")


def smallest_limit(controller: str, files: tuple[str, ...], own: Path = OWN_CGROUP, tree: Path = CGROUPS) -> int | None:
    """Return the limit; None where there is none."""
    found = (_limit(directory / file) for directory in _directories(controller, own, tree) for file in files)
    return min((limit for limit in found if limit is not None), default=None)


def _directories(controller: str, own: Path, tree: Path) -> Iterator[Path]:
    """Yield the directories of our cgroup and its parents."""
    lines = []
    with contextlib.suppress(OSError):
        lines = [line.split(":", 2) for line in own.read_text().splitlines()]
    for _, controllers, path in (line for line in lines if len(line) == 3):
        if controllers in ("", controller):
            top = tree / controllers
            here = top / path.strip("/")
            yield from (here, *(parent for parent in here.parents if parent.is_relative_to(top)))


def _limit(file: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        return int(file.read_text())
    return None
