"""Questions about health."""

from types import SimpleNamespace

import aiohttp
import pytest

from varnish_gateway.api import Key
from varnish_gateway.dataplane.metrics import up_to_date
from varnish_gateway.ir import Condition, InvalidationStatus
from varnish_gateway.runtime.environment import Address
from varnish_gateway.runtime.prometheus import family
from varnish_gateway.standalone.health import SHOWN, health_server

CAFE = Key("Gateway", "default", "cafe")


@pytest.fixture
async def ask(tmp_path):
    invalidations = SimpleNamespace(statuses={}, phases={})
    serving = SimpleNamespace(planes={}, problems=[], is_up_to_date=True, rejections=0, invalidations=invalidations)
    (tmp_path / "tokens.json").write_text('{"tokens": [{"name": "ci", "token": "0123456789abcdef"}]}')
    server = health_server(serving, tmp_path / "tokens.json")
    await server.start(Address("127.0.0.1", 0))

    async def get(path: str) -> tuple[int, object]:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{server.port}{path}") as response:
            return response.status, await response.json() if path == "/ready" else await response.text()

    get.port = server.port
    get.planes, get.problems, get.serving = serving.planes, serving.problems, serving
    yield get
    await server.stop()


async def test_health_answers_while_the_process_lives(ask):
    assert await ask("/health") == (200, "ok\n")


async def test_ready_needs_every_gateway_to_serve(ask):
    rest = {"upToDate": True, "problems": [], "invalidations": {}}
    assert await ask("/ready") == (503, {"ready": False, "gateways": {}, **rest})
    ask.planes[CAFE] = SimpleNamespace(is_ready=True, served={"configuration": "x"})
    gateways = {"default/cafe": {"configuration": "x"}}
    assert await ask("/ready") == (200, {"ready": True, "gateways": gateways, **rest})
    ask.planes[CAFE._replace(name="other")] = SimpleNamespace(is_ready=False, served=None)
    assert (await ask("/ready"))[0] == 503


async def test_ready_lists_problems_and_counts_those_beyond_a_few(ask):
    ask.planes[CAFE] = SimpleNamespace(is_ready=True, served=None)
    ask.problems.extend(f"problem {number}" for number in range(SHOWN + 2))
    status, page = await ask("/ready")
    assert status == 200
    assert page["problems"] == [*(f"problem {number}" for number in range(SHOWN)), "and 2 more"]


async def test_ready_shows_invalidations_those_that_are_not_complete_first(ask):
    def status(phase: str) -> InvalidationStatus:
        return InvalidationStatus(phase, 1, (Condition("Complete", "True", phase, "3 objects", 1),), 3)

    names = [f"i{number:02}" for number in range(SHOWN + 1)]
    statuses = {Key("VarnishCacheInvalidation", "default", name): status("Complete") for name in names}
    ask.serving.invalidations.statuses = {**statuses, CAFE._replace(name="z"): status("Failed")}
    _, page = await ask("/ready")
    assert list(page["invalidations"]) == ["default/z", *(f"default/{name}" for name in names[: SHOWN - 1])]
    shown = page["invalidations"]["default/z"]
    assert (shown["phase"], shown["objects"], shown["conditions"][0]["message"]) == ("Failed", 3, "3 objects")


class MeasuredPlane(SimpleNamespace):
    is_ready, served = True, None

    async def metrics(self) -> list[str]:
        return [*up_to_date(is_so=True), *family("vgw_route_hits_total", "counter", "Hits.", [({"route": "a"}, 2)])]


async def test_metrics_have_the_label_gateway_and_count_rejected_files(ask):
    ask.planes[CAFE], ask.planes[CAFE._replace(name="other")] = MeasuredPlane(), MeasuredPlane()
    ask.serving.rejections, ask.serving.is_up_to_date = 3, False
    ask.serving.invalidations.phases = {"Failed": 1, "Complete": 2}
    status, text = await ask("/metrics")
    assert status == 200
    assert text.splitlines() == [
        "# HELP vgw_reload_failures_total Configurations that ghost rejected, or files with an error.",
        "# TYPE vgw_reload_failures_total counter",
        'vgw_reload_failures_total{gateway=""} 3',
        "# HELP vgw_up_to_date 1 while the newest configuration serves.",
        "# TYPE vgw_up_to_date gauge",
        'vgw_up_to_date{gateway=""} 0',
        'vgw_up_to_date{gateway="default/cafe"} 1',
        'vgw_up_to_date{gateway="default/other"} 1',
        "# HELP vgw_file_invalidations VarnishCacheInvalidations of the files by phase.",
        "# TYPE vgw_file_invalidations gauge",
        'vgw_file_invalidations{gateway="",phase="Complete"} 2',
        'vgw_file_invalidations{gateway="",phase="Failed"} 1',
        "# HELP vgw_route_hits_total Hits.",
        "# TYPE vgw_route_hits_total counter",
        'vgw_route_hits_total{gateway="default/cafe",route="a"} 2',
        'vgw_route_hits_total{gateway="default/other",route="a"} 2',
    ]


class CachingPlane(SimpleNamespace):
    may_hold_objects, routes = True, frozenset()

    async def invalidate(self, _invalidation, client) -> tuple[int, ...]:
        raise ConnectionError(f"{client}: no worker")


async def test_invalidation_goes_to_every_gateway_and_names_the_one_that_fails(ask):
    ask.planes[CAFE] = CachingPlane()
    where, headers = f"http://127.0.0.1:{ask.port}/invalidate", {"Authorization": "Bearer 0123456789abcdef"}
    async with aiohttp.ClientSession(headers=headers) as session:
        async with session.post(where, json={"targets": [{"host": "a"}]}) as answer:
            failed = answer.status, await answer.json()
        ask.planes[CAFE].may_hold_objects = False
        async with session.post(where, json={"targets": [{"host": "a"}]}) as answer:
            nothing_runs = answer.status
    assert failed == (503, {"error": "Gateway default/cafe: ci: no worker; repeat the invalidation"})
    assert nothing_runs == 503
