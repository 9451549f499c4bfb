"""Questions about health."""

from types import SimpleNamespace

import aiohttp
import pytest

from varnish_gateway.api import Key
from varnish_gateway.runtime.environment import Address
from varnish_gateway.standalone.health import SHOWN, health_server

CAFE = Key("Gateway", "default", "cafe")


@pytest.fixture
async def ask():
    serving = SimpleNamespace(planes={}, problems=[])
    server = health_server(serving)
    await server.start(Address("127.0.0.1", 0))

    async def get(path: str) -> tuple[int, object]:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{server.port}{path}") as response:
            return response.status, await response.json() if path == "/ready" else await response.text()

    get.planes, get.problems = serving.planes, serving.problems
    yield get
    await server.stop()


async def test_health_answers_while_the_process_lives(ask):
    assert await ask("/health") == (200, "ok\n")


async def test_ready_needs_every_gateway_to_serve(ask):
    assert await ask("/ready") == (503, {"ready": False, "gateways": {}, "problems": []})
    ask.planes[CAFE] = SimpleNamespace(is_ready=True, served={"configuration": "x"})
    gateways = {"default/cafe": {"configuration": "x"}}
    assert await ask("/ready") == (200, {"ready": True, "gateways": gateways, "problems": []})
    ask.planes[CAFE._replace(name="other")] = SimpleNamespace(is_ready=False, served=None)
    assert (await ask("/ready"))[0] == 503


async def test_ready_lists_problems_and_counts_those_beyond_a_few(ask):
    ask.planes[CAFE] = SimpleNamespace(is_ready=True, served=None)
    ask.problems.extend(f"problem {number}" for number in range(SHOWN + 2))
    status, page = await ask("/ready")
    assert status == 200
    assert page["problems"] == [*(f"problem {number}" for number in range(SHOWN)), "and 2 more"]
