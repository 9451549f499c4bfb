"""Fixtures of all tests with a real varnishd.

What these tests are made of, from the bottom up:
loopback, places, processes, waiting   ports, directories, processes, deadlines
origins, talk, load                    what is behind a gateway, and in front of it
manifests                              what a user writes
ghostlab                               a varnishd with ghost, configured through its files
chaperonelab                           a data plane, fed with changes
caselab                                a data plane, fed with cases/*.yaml
running                                ``vgw run`` as a process
"""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from varnish.origins import Origin, Origins
from varnish.places import open_place


@pytest.fixture
def place() -> Iterator[Path]:
    with open_place() as directory:
        yield directory


@pytest.fixture
async def origins() -> AsyncIterator[Origins]:
    origins = Origins()
    yield origins
    await origins.close()


@pytest.fixture(scope="module")
def tea() -> Iterator[Origin]:
    with Origin("tea") as origin:
        yield origin


@pytest.fixture(scope="module")
def coffee() -> Iterator[Origin]:
    with Origin("coffee") as origin:
        yield origin
