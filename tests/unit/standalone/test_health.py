"""Questions about health."""

from types import SimpleNamespace

import aiohttp
import pytest

from varnish_gateway.api import Key
from varnish_gateway.runtime.environment import Address
from varnish_gateway.standalone.health import health_server

CAFE = Key("Gateway", "default", "cafe")


@pytest.fixture
async def ask():
    planes: dict[Key, SimpleNamespace] = {}
    server = health_server(planes)
    await server.start(Address("127.0.0.1", 0))

    async def get(path: str) -> tuple[int, object]:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{server.port}{path}") as response:
            return response.status, await response.json() if path == "/ready" else await response.text()

    get.planes = planes
    yield get
    await server.stop()


async def test_health_answers_while_the_process_lives(ask):
    assert await ask("/health") == (200, "ok\n")


async def test_ready_needs_every_gateway_to_serve(ask):
    assert await ask("/ready") == (503, {"ready": False, "gateways": {}})
    ask.planes[CAFE] = SimpleNamespace(is_ready=True, served={"configuration": "x"})
    assert await ask("/ready") == (200, {"ready": True, "gateways": {"default/cafe": {"configuration": "x"}}})
    ask.planes[CAFE._replace(name="other")] = SimpleNamespace(is_ready=False, served=None)
    assert (await ask("/ready"))[0] == 503
