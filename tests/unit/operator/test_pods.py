"""What pods are asked, and what they can't make us do."""

import contextlib
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from varnish_gateway.api import Key
from varnish_gateway.operator.pods import LONGEST_ANSWER, Chaperones, Pod, Report

GATEWAY = Key("Gateway", "shop", "gw")


@contextlib.asynccontextmanager
async def pod_that_answers(response: web.Response) -> AsyncIterator[tuple[int, list[str]]]:
    """Give the port of a pod, and the paths that it was asked for."""
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        return response

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield runner.addresses[0][1], asked
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


async def test_a_pod_where_nobody_listens_says_why():
    async with pod_that_answers(web.Response()) as (port, _):
        pass
    assert str(await ask(port)).startswith("no answer: ")
