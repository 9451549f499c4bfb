"""Operators in a simulated cluster, in virtual time.

What these tests are made of, from the bottom up:
virtualtime an event loop in which nobody waits
fields      the language of server-side apply
store       what an API server stores, and how it changes
client      requests and watches that take their time
operators   real operators, their lead, and what their pods answer
documents   what operators work on, besides what tests/apiserver has
turbulence  changes by chance
runs        one run of a seed, and the report of a failure

``python -m support.simulation`` makes many more runs: see __main__.py.
"""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest

from support.simulation.runs import processes


@pytest.fixture(scope="session")
def pool() -> Iterator[ProcessPoolExecutor]:
    """Give a process in which a seed means the same run as anywhere."""
    with processes(1) as pool:
        yield pool
