"""Operators in a simulated cluster, in virtual time.

Helpers in tests/support/simulation, from the bottom up:
virtualtime an event loop whose clock jumps to the next timer
fields      field ownership of server-side apply
faults      what goes wrong with an API server and with nodes
store       what an API server stores, and its watch history
client      requests and watches with delays
operators   real operators, their leadership, and the answers of their pods
documents   objects of the simulation, besides those of support/kube
turbulence  random changes
oracle      what a cluster at rest has to look like, without the operator's code
runs        one run of a seed, and the report of a failure

``python -m support.simulation`` makes many more runs: see __main__.py.
"""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest

from support.simulation.runs import processes


@pytest.fixture(scope="session")
def pool() -> Iterator[ProcessPoolExecutor]:
    """Give a process in which a seed reproduces its run."""
    with processes(1) as pool:
        yield pool
