"""Fixtures of all tests with a real varnishd."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from varnish.origins import Origins
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
