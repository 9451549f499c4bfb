"""How much memory this machine has, and how much of it the kernel lets us have.

In:   the cgroup that we are in, and the size of the machine.
Out:  Memory, in bytes.
"""

import os
from pathlib import Path
from typing import NamedTuple

from varnish_gateway.dataplane.process.cgroup import CGROUPS, OWN_CGROUP, smallest_limit


class Memory(NamedTuple):
    """None stands for no limit, and for what is not known."""

    limit: int | None = None
    physical: int | None = None


def memory(own: Path = OWN_CGROUP, cgroups: Path = CGROUPS) -> Memory:
    """Return what there is. A limit beyond the machine is none: cgroups of version 1 write a huge number."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = smallest_limit("memory", ("memory.max", "memory.limit_in_bytes"), own, cgroups)
    return Memory(limit if limit is not None and limit < physical else None, physical)
