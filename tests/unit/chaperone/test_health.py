"""Questions about health, to a data plane of a few lines."""

import json
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from varnish_gateway.chaperone.feeds.source import SourceState
from varnish_gateway.chaperone.health import health_server
from varnish_gateway.dataplane.change import ServingState
from varnish_gateway.dataplane.events import Bus
from varnish_gateway.dataplane.settings import from_environment
from varnish_gateway.runtime.environment import Address


class DataPlane:
    """Serves until it drains, without a varnishd to ask for counters."""

    may_hold_objects, routes = True, frozenset()

    def __init__(self, settings):
        self.bus = Bus()
        self.settings = settings
        self.draining = False
        self.supervisor = self
        self.terminator = self
        self.reload_port = 1  # nothing listens there
        self.varnish_dir = Path("/nonexistent")

    def start_draining(self):
        self.draining = True

    async def invalidate(self, _invalidation, client):
        return (len(client),)

    async def metrics(self):
        return ["vgw_tls_something 1"]

    @property
    def served(self):
        return ServingState(
            ready=not self.draining,
            reason="draining" if self.draining else "",
            configuration="x",
            vcl=None,
            generation="1",
            sockets=("http-80=:80",),
            up_to_date=True,
            problems=(),
        )


class Cluster:
    """A source that reports a given state."""

    def __init__(self):
        self.state = SourceState()
        self.operator_token = ""

    def metrics(self):
        yield "vgw_something 1"


@pytest.fixture
def source():
    return Cluster()


@pytest.fixture
async def ask(source, tmp_path):
    settings = from_environment({"INVALIDATION_TOKENS_FILE": str(tmp_path / "tokens.json")})
    server = health_server(DataPlane(settings), source)
    await server.start(Address("127.0.0.1", 0))

    async def get(path: str, method: str = "GET", **more) -> tuple[int, str]:
        where = f"http://127.0.0.1:{server.port}{path}"
        async with aiohttp.ClientSession() as session, session.request(method, where, **more) as answer:
            return answer.status, await answer.text()

    yield get
    await server.stop()


async def test_alive(ask):
    assert await ask("/health") == (200, "ok\n")


async def test_ready_names_what_serves(ask):
    status, text = await ask("/ready")
    report = json.loads(text)
    assert (status, report["configuration"], report["generation"], report["upToDate"]) == (200, "x", "1", True)


async def test_draining_is_not_ready_but_alive(ask):
    assert (await ask("/drain"))[0] == 503
    status, text = await ask("/ready")
    assert (status, json.loads(text)["reason"]) == (503, "draining")
    assert (await ask("/health"))[0] == 200


@pytest.mark.parametrize(
    ("remote", "status"),
    [("127.0.0.1", 503), ("::1", 503), ("::ffff:127.0.0.1", 503), ("10.0.0.7", 403), ("::ffff:10.0.0.7", 403)],
)
async def test_drain_request_is_accepted_from_within_the_pod_alone(monkeypatch, ask, remote, status):
    monkeypatch.setattr(web.BaseRequest, "remote", remote)
    assert (await ask("/drain"))[0] == status
    assert (await ask("/ready"))[0] == (503 if status == 503 else 200)


async def test_metrics_do_not_need_ghost(ask):
    status, text = await ask("/metrics")
    assert status == 200
    assert "vgw_ready 1" in text
    assert "vgw_route_requests_total{" not in text
    assert text.endswith("vgw_something 1\n")


@pytest.mark.parametrize(
    ("state", "up_to_date"),
    [
        (SourceState(troubles=("t",), away_since=datetime(2026, 1, 1, tzinfo=UTC)), True),
        (SourceState(problems=("p",)), False),
        (SourceState(is_read=False), False),
    ],
    ids=["away", "wrong", "from-disk"],
)
async def test_source_in_trouble_is_reported_and_leaves_the_pod_ready(ask, source, state, up_to_date):
    source.state = state
    status, text = await ask("/ready")
    report = json.loads(text)
    assert (status, report["ready"], report["upToDate"]) == (200, True, up_to_date)
    assert (report["problems"], report["troubles"]) == (list(state.problems), list(state.troubles))
    assert report["awaySince"] == ("2026-01-01T00:00:00Z" if state.away_since else None)


async def test_invalidation_is_for_clients_with_a_token_of_the_file(ask, tmp_path):
    request = {"json": {"targets": [{"host": "a"}]}, "headers": {"Authorization": "Bearer 0123456789abcdef"}}
    status, text = await ask("/invalidate", "POST", **request)
    assert (status, "INVALIDATION_TOKENS_FILE" in text) == (404, True)
    (tmp_path / "tokens.json").write_text('{"tokens": [{"name": "ci", "token": "0123456789abcdef"}]}')
    assert await ask("/invalidate", "POST", **request) == (200, '{"objects":[2]}')
    assert (await ask("/invalidate"))[0] == 405


async def test_invalidation_is_for_the_operator_once_its_token_was_read(ask, source):
    request = {"json": {"targets": [{"host": "a"}]}, "headers": {"Authorization": f"Bearer {'f' * 64}"}}
    assert (await ask("/invalidate", "POST", **request))[0] == 404
    source.operator_token = "f" * 64
    assert (await ask("/invalidate", "POST", **request))[0] == 200
