"""A data plane with fakes, for tests of its passes."""

import asyncio

import pytest

from support.varnish.fake_varnish import FakeVarnish, build
from varnish_gateway.dataplane.quarantine import QuarantineDelays

LATER = QuarantineDelays(10, 600)


@pytest.fixture
def delays() -> QuarantineDelays:
    return LATER


@pytest.fixture
def retry_seconds() -> float:
    return 0.01


@pytest.fixture
def waiting() -> dict:
    """Return what a drain waits with, where that differs from production."""
    return {}


@pytest.fixture
async def parts(tmp_path, delays, retry_seconds, waiting):
    varnish = FakeVarnish(tmp_path / "ghost.json")
    server = await asyncio.start_server(varnish.answer, "127.0.0.1", 0)
    varnish.port = server.sockets[0].getsockname()[1]
    plane, parts = build(tmp_path, varnish, delays, retry_seconds, **waiting)
    plane.run()
    yield plane, parts
    await plane.stop_passes()
    server.close()


@pytest.fixture
def plane(parts):
    return parts[0]


@pytest.fixture
def desired(parts):
    return parts[1].desired
