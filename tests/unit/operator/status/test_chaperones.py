"""Probes of pods; a hostile pod can't misuse them."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web

from varnish_gateway.api import Key
from varnish_gateway.operator.observe.pods import GatewayPod
from varnish_gateway.operator.status import chaperones as probing
from varnish_gateway.operator.status.chaperones import LONGEST_ANSWER, Chaperones
from varnish_gateway.operator.status.readiness import PodReport

GATEWAY = Key("Gateway", "shop", "gw")


@contextlib.asynccontextmanager
async def pod_that_answers(response: web.Response) -> AsyncIterator[tuple[int, list[str]]]:
    """Yield the port of a pod, and the paths that were requested."""
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        return response

    async with pod_that(answer) as port:
        yield port, asked


@contextlib.asynccontextmanager
async def pod_that(answers: Callable[[web.Request], Awaitable[web.Response]]) -> AsyncIterator[int]:
    app = web.Application()
    app.router.add_get("/{path:.*}", answers)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def ask(port: int) -> PodReport | str:
    async with Chaperones(port) as chaperones:
        return (await chaperones.ask([GatewayPod("one", GATEWAY, "127.0.0.1", is_ready=True)]))["one"]


async def test_report_of_a_chaperone_is_decoded():
    answer = {"generation": "3", "sockets": ["http-80=:80"], "upToDate": True, "problems": [], "more": 1}
    async with pod_that_answers(web.json_response(answer)) as (port, asked):
        assert await ask(port) == PodReport(generation="3", sockets=("http-80=:80",), up_to_date=True)
    assert asked == ["/ready"]


@pytest.mark.parametrize(
    "response",
    [
        {"status": 302, "headers": {"Location": "/elsewhere"}},
        {"body": b'{"vcl": "' + b"x" * LONGEST_ANSWER + b'"}'},
        {"body": b"{half"},
        {"body": b'{"sockets": 1}'},
        {"body": b'{"vcl": "\xff"}'},
        {"body": b'{"x": ' + b"[" * 20_000},
    ],
    ids=["redirection", "long", "malformed", "wrong", "no UTF-8", "deep"],
)
async def test_anything_but_a_report_counts_as_no_answer(response):
    async with pod_that_answers(web.Response(**response)) as (port, asked):
        answer = await ask(port)
        assert isinstance(answer, str)
        assert answer.startswith("no answer: ")
    assert asked == ["/ready"]


async def test_concurrent_probes_are_limited_and_each_has_its_own_deadline(monkeypatch):
    monkeypatch.setattr(probing, "AT_ONCE", 2)
    monkeypatch.setattr(probing, "ANSWER_SECONDS", 0.5)
    asked = []

    async def answer(_: web.Request) -> web.Response:
        asked.append(time.monotonic())
        await asyncio.sleep(0.3)
        return web.json_response({"generation": "3"})

    async with pod_that(answer) as port, Chaperones(port) as chaperones:
        reports = await chaperones.ask(
            GatewayPod(f"p{number}", GATEWAY, "127.0.0.1", is_ready=True) for number in range(6)
        )
    assert set(reports.values()) == {PodReport(generation="3")}
    assert asked[2] - asked[0] > 0.2


async def test_closed_port_counts_as_no_answer_with_the_error():
    async with pod_that_answers(web.Response()) as (port, _):
        pass
    assert str(await ask(port)).startswith("no answer: ")
