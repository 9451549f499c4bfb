"""How many processes and threads the kernel lets us have.

In:   the cgroup that we are in, as /proc/self/cgroup names it.
Out:  the smallest ``pids.max`` of it and its parents.
"""

from pathlib import Path

from varnish_gateway.dataplane.process.cgroup import CGROUPS, OWN_CGROUP, smallest_limit


def task_limit(own: Path = OWN_CGROUP, cgroups: Path = CGROUPS) -> int | None:
    """Return the limit; None where there is none."""
    return smallest_limit("pids", ("pids.max",), own, cgroups)
