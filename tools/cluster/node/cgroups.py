"""The control group that all pods are under, in cgroup v1 and v2.

In:   the mounts of this machine.
Out:  one directory in every hierarchy (v1, and hybrid) or one in the only one (v2), made before the
      kubelet starts, because it makes only what is below; removed with everything in it.
"""

import contextlib
import os
import time
from pathlib import Path
from typing import NamedTuple

from cluster.errors import ClusterError
from cluster.layout import CGROUP

REMOVAL_SECONDS = 10.0


class Hierarchies(NamedTuple):
    """Where control groups are mounted."""

    version: int
    roots: tuple[Path, ...]


def hierarchies(mounts: str) -> Hierarchies:
    """Read /proc/self/mounts. With any v1 hierarchy it is v1, as container runtimes see it."""
    found = [line.split()[1:3] for line in mounts.splitlines()]
    first = tuple(Path(place) for place, kind in found if kind == "cgroup")
    second = tuple(Path(place) for place, kind in found if kind == "cgroup2")
    if first:
        return Hierarchies(1, first + second)
    if second:
        return Hierarchies(2, second[:1])
    raise ClusterError("no cgroup file system is mounted: pods need one at /sys/fs/cgroup")


def current() -> Hierarchies:
    return hierarchies(Path("/proc/self/mounts").read_text())


def create(found: Hierarchies) -> None:
    """Make the cluster's control group."""
    for root in found.roots:
        group = root / CGROUP.lstrip("/")
        group.mkdir(exist_ok=True)
        if found.version == 2:
            _delegate(root)
            _delegate(group)
        else:
            _fill_cpuset(root, group)


def _delegate(group: Path) -> None:
    """Let the groups below have every controller (v2)."""
    for controller in (group / "cgroup.controllers").read_text().split():
        try:
            (group / "cgroup.subtree_control").write_text(f"+{controller}")
        except OSError as error:
            raise ClusterError(
                f"{group} can't hand on the controller {controller}: {error.strerror}. "
                "It may hold processes itself: run this outside a container, or in a delegated cgroup"
            ) from error


def _fill_cpuset(root: Path, group: Path) -> None:
    """Let the group have all processors (v1): an empty cpuset takes no process."""
    for file in ("cpuset.cpus", "cpuset.mems"):
        if (root / file).exists():
            (group / file).write_text((root / file).read_text())


def remove(found: Hierarchies) -> list[Path]:
    """Remove the cluster's control group with all below; return what is left because of processes in it."""
    deadline = time.monotonic() + REMOVAL_SECONDS
    left = leftovers(found)
    while left and time.monotonic() < deadline:
        for group in left:
            _remove(group)
        if left := leftovers(found):
            time.sleep(0.05)  # the last processes are on their way out
    return left


def leftovers(found: Hierarchies) -> list[Path]:
    """Return the cluster's control groups that exist."""
    return [group for root in found.roots if (group := root / CGROUP.lstrip("/")).is_dir()]


def _remove(group: Path) -> None:
    for place, _, _ in os.walk(group, topdown=False):
        with contextlib.suppress(OSError):
            Path(place).rmdir()
