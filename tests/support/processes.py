"""Processes, read from /proc."""

import contextlib
import re
import time
from pathlib import Path


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def descendants(pid: int) -> list[int]:
    return [found for child in children(pid) for found in (child, *descendants(child))]


def working_in(directory: Path) -> set[int]:
    """Return the processes whose command line names a directory, no matter which process started them."""
    found = set()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):  # it ended meanwhile
            if entry.name.isdigit() and bytes(directory) in (entry / "cmdline").read_bytes():
                found.add(int(entry.name))
    return found


def program(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def kilobytes(pid: int, what: str) -> int:
    """Return what a process holds: VmRSS is all, RssAnon leaves out files that are mapped."""
    return int(re.search(rf"{what}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())[1])


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of all threads of a process, in units of nanoseconds: see clock_getcpuclockid(3)."""
    return time.clock_gettime(~pid << 3 | 2)


def threads(pid: int) -> int:
    return int(re.search(r"Threads:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1])
