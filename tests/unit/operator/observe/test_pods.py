"""What pods are asked, and what they can't make us do."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web

from varnish_gateway.api import Key
from varnish_gateway.operator.observe import pods
from varnish_gateway.operator.observe.pods import LONGEST_ANSWER, Chaperones, Pod, Report

GATEWAY = Key("Gateway", "shop", "gw")


@contextlib.asynccontextmanager
async def pod_that_answers(response: web.Response) -> AsyncIterator[tuple[int, list[str]]]:
    """Give the port of a pod, and the paths that it was asked for."""
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


async def ask(port: int) -> Report | str:
    async with Chaperones(port) as chaperones:
        return (await chaperones.ask([Pod("one", GATEWAY, "127.0.0.1", is_ready=True)]))["one"]


async def test_a_report_is_read():
    said = {"generation": "3", "sockets": ["http-80=:80"], "upToDate": True, "problems": [], "more": 1}
    async with pod_that_answers(web.json_response(said)) as (port, asked):
        assert await ask(port) == Report(generation="3", sockets=("http-80=:80",), up_to_date=True)
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
async def test_what_is_no_report_is_no_answer(response):
    async with pod_that_answers(web.Response(**response)) as (port, asked):
        told = await ask(port)
        assert isinstance(told, str)
        assert told.startswith("no answer: ")
    assert asked == ["/ready"]


async def test_only_so_many_pods_are_asked_at_once_and_each_has_its_time(monkeypatch):
    monkeypatch.setattr(pods, "AT_ONCE", 2)
    monkeypatch.setattr(pods, "ANSWER_SECONDS", 0.5)
    asked = []

    async def answer(_: web.Request) -> web.Response:
        asked.append(time.monotonic())
        await asyncio.sleep(0.3)
        return web.json_response({"generation": "3"})

    async with pod_that(answer) as port, Chaperones(port) as chaperones:
        told = await chaperones.ask(Pod(f"p{number}", GATEWAY, "127.0.0.1", is_ready=True) for number in range(6))
    assert set(told.values()) == {Report(generation="3")}
    assert asked[2] - asked[0] > 0.2


async def test_a_pod_where_nobody_listens_says_why():
    async with pod_that_answers(web.Response()) as (port, _):
        pass
    assert str(await ask(port)).startswith("no answer: ")
