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
from varnish_gateway.operator.status.answers import InvalidationAnswer
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
    app.router.add_post("/{path:.*}", answers)
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
    monkeypatch.setattr(probing, "ANSWER_SECONDS", 1.4)  # less than all answers take together
    asked = []

    async def answer(_: web.Request) -> web.Response:
        asked.append(time.monotonic())
        await asyncio.sleep(0.5)
        return web.json_response({"generation": "3"})

    async with pod_that(answer) as port, Chaperones(port) as chaperones:
        reports = await chaperones.ask(
            GatewayPod(f"p{number}", GATEWAY, "127.0.0.1", is_ready=True) for number in range(6)
        )
    assert [*reports.values()] == [PodReport(generation="3")] * 6
    assert asked[2] - asked[0] > 0.4


async def test_closed_port_counts_as_no_answer_with_the_error():
    async with pod_that_answers(web.Response()) as (port, _):
        pass
    assert str(await ask(port)).startswith("no answer: ")


async def invalidate(port: int, *names: str) -> dict[str, InvalidationAnswer]:
    pods = [GatewayPod(name, GATEWAY, "127.0.0.1", is_ready=True) for name in names or ("one",)]
    async with Chaperones(port) as chaperones:
        return dict(await chaperones.invalidate(pods, b"{}", "f" * 64))


async def test_invalidation_is_sent_with_the_token_and_its_counts_are_returned():
    seen = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((request.path, request.headers["Authorization"], await request.read()))
        return web.json_response({"objects": [1, 2]})

    async with pod_that(answer) as port:
        assert await invalidate(port) == {"one": InvalidationAnswer((1, 2))}
    assert seen == [("/invalidate", f"Bearer {'f' * 64}", b"{}")]


@pytest.mark.parametrize(
    ("response", "message", "is_rejection"),
    [
        ({"status": 400, "body": b'{"error": "targets[0].host: not a host"}'}, "targets[0].host: not a host", True),
        ({"status": 413, "body": b"{}"}, "it answered 413", True),
        ({"status": 503, "body": b'{"error": "varnishd does not run yet"}'}, "varnishd does not run yet", False),
        ({"status": 429, "body": b"{}"}, "it answered 429", False),
        ({"status": 404}, "it does not know the operator's token yet, or is of an earlier version", False),
        ({"status": 401}, "it does not know the operator's token yet, or is of an earlier version", False),
        ({"status": 302, "headers": {"Location": "/elsewhere"}, "body": b"{}"}, "it answered 302", False),
        ({"status": 400, "body": b'{"error": "' + b"x" * 5000 + b'"}'}, "x" * 300, True),
    ],
    ids=["invalid", "large", "not yet", "busy", "earlier version", "unknown token", "redirection", "long"],
)
async def test_pod_that_does_not_confirm_says_why(response, message, is_rejection):
    async with pod_that_answers(web.Response(**response)) as (port, asked):
        assert await invalidate(port) == {"one": InvalidationAnswer(None, message, is_rejection)}
    assert asked == ["/invalidate"]


@pytest.mark.parametrize(
    "body",
    [b"", b"{half", b'{"objects": ["a"]}', b'{"objects": [' + b"1," * LONGEST_ANSWER],
    ids=["empty", "malformed", "wrong", "long"],
)
async def test_answer_of_a_hostile_pod_is_no_confirmation(body):
    async with pod_that_answers(web.Response(body=body)) as (port, _):
        found = (await invalidate(port))["one"]
    assert (found.objects, found.is_rejection) == (None, False)
    assert found.message.startswith("no answer: ")


async def test_pods_of_a_gateway_are_sent_an_invalidation_a_few_at_a_time(monkeypatch):
    monkeypatch.setattr(probing, "PODS_AT_ONCE", 2)
    present, most = [], []

    async def answer(request: web.Request) -> web.Response:
        present.append(request)
        most.append(len(present))
        await asyncio.sleep(0.05)
        present.remove(request)
        return web.json_response({"objects": []})

    async with pod_that(answer) as port:
        found = await invalidate(port, *(f"p{number}" for number in range(6)))
    assert {*found.values()} == {InvalidationAnswer(())}
    assert max(most) == 2


async def test_silent_pod_is_given_up_in_time(monkeypatch):
    monkeypatch.setattr(probing, "INVALIDATION_SECONDS", 0.2)

    async def answer(_: web.Request) -> web.Response:
        await asyncio.sleep(2)
        return web.Response()

    async with pod_that(answer) as port:
        assert await invalidate(port) == {"one": InvalidationAnswer(None, "no answer in time")}
