"""What the client does about answers that a healthy API server does not give."""

import asyncio
import time

import pytest

from support.kube.scripted_api_server import ScriptedApiServer, client_of
from varnish_gateway import errors
from varnish_gateway.kube import client as client_module
from varnish_gateway.kube.resources import RESOURCES

CONFIG_MAP = RESOURCES["ConfigMap"]
DOCUMENT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm", "namespace": "n"}}


async def test_read_is_retried_after_a_server_error():
    server = ScriptedApiServer().then(503).then(500).then_break().then(200, {"kind": "ConfigMap"})
    async with client_of(server) as client:
        assert await client.get(CONFIG_MAP, "cm", namespace="n") == b'{"kind": "ConfigMap"}'
    assert len(server.asked) == 4


async def test_read_that_may_come_from_memory_says_how_new_it_has_to_be():
    server = ScriptedApiServer().then(200, {"kind": "ConfigMap"})
    async with client_of(server) as client:
        await client.get(CONFIG_MAP, "cm", namespace="n", not_older_than="17")
        await client.get(CONFIG_MAP, "cm", namespace="n")
    path = "GET /api/v1/namespaces/n/configmaps/cm"
    assert server.asked == [f"{path}?resourceVersion=17", path]


async def test_retries_are_limited():
    server = ScriptedApiServer().then(503, {"message": "starting"})
    async with client_of(server, attempts=3) as client:
        with pytest.raises(errors.ApiError, match="starting") as caught:
            await client.get(CONFIG_MAP, "cm")
    assert caught.value.status == 503
    assert len(server.asked) == 3


async def test_apply_is_retried_after_a_broken_connection():
    server = ScriptedApiServer().then_break().then(200)
    async with client_of(server) as client:
        await client.apply(DOCUMENT, manager="m")
    assert server.asked == ["PATCH /api/v1/namespaces/n/configmaps/cm?fieldManager=m&force=false"] * 2


async def test_create_is_not_retried_after_a_broken_connection():
    server = ScriptedApiServer().then_break().then(500).then(200)
    async with client_of(server) as client:
        with pytest.raises(errors.Unreachable):
            await client.create(DOCUMENT, manager="m")
        with pytest.raises(errors.ApiError):
            await client.create(DOCUMENT, manager="m")
    assert len(server.asked) == 2


async def test_throttled_request_is_retried_after_the_given_delay():
    server = ScriptedApiServer().then(429, {"message": "busy"}, **{"Retry-After": "0.01"}).then(201)
    async with client_of(server) as client:
        await client.create(DOCUMENT, manager="m")
        assert client.metrics.requests["create", "ConfigMap", 429] == 1


async def test_unavailable_server_is_asked_again_after_the_given_delay():
    server = ScriptedApiServer().then(503, {"message": "starting"}, **{"Retry-After": "0.3"}).then(200)
    began = time.monotonic()
    async with client_of(server) as client:
        await client.read("/x")
    assert time.monotonic() - began >= 0.3


async def test_request_that_has_to_wait_long_is_left_to_its_caller():
    server = ScriptedApiServer().then(429, {"message": "busy"}, **{"Retry-After": "40"}).then(200)
    async with client_of(server) as client:
        with pytest.raises(errors.Throttled) as raised:
            await client.read("/x")
    assert raised.value.retry_after == 40
    assert len(server.asked) == 1


async def test_rejected_request_is_not_retried():
    server = ScriptedApiServer().then(422, {"message": "data: too long"})
    async with client_of(server) as client:
        with pytest.raises(errors.Invalid, match="too long"):
            await client.apply(DOCUMENT, manager="m")
    assert len(server.asked) == 1


async def test_redirect_is_not_followed():
    server = ScriptedApiServer().then(302, Location="http://192.0.2.1/")
    async with client_of(server) as client:
        with pytest.raises(errors.ApiError):
            await client.get(CONFIG_MAP, "cm")


@pytest.mark.parametrize("status", [200, 201])
async def test_html_page_is_not_an_answer(status):
    server = ScriptedApiServer().then(status, b"<html>we are back soon</html>", **{"Content-Type": "text/html"})
    async with client_of(server) as client:
        with pytest.raises(errors.ApiError, match="back soon"):
            await client.get(CONFIG_MAP, "cm")
        with pytest.raises(errors.ApiError, match="text/html"):
            await client.apply(DOCUMENT, manager="m")


async def test_text_is_accepted_where_it_was_requested():
    server = ScriptedApiServer().then(200, b"ok", **{"Content-Type": "text/plain; charset=utf-8"})
    async with client_of(server) as client:
        assert await client.read("/readyz", accept="text/plain") == b"ok"


async def test_lines_are_complete_whatever_the_chunks():
    server = ScriptedApiServer().then_stream(b'{"a":', b"1}\n{", b"}\n", b"unfinished")
    async with client_of(server) as client:
        seen = [line async for lines in client.lines("/w", silence=5) for line in lines]
    assert seen == [b'{"a":1}', b"{}"]


async def test_silent_watch_is_closed():
    server = ScriptedApiServer().then_stream(b"{}\n", stay=True)
    async with client_of(server) as client:
        with pytest.raises(errors.Unreachable):
            async for _ in client.lines("/w", silence=0.1):
                pass


async def test_watch_without_a_response_is_closed_soon(monkeypatch):
    """A watch may be silent for long, but it begins at once: a server that hangs is not waited for."""
    monkeypatch.setattr(client_module, "_BEGIN_SECONDS", 0.1)
    server = ScriptedApiServer().then_hang()
    async with client_of(server) as client, asyncio.timeout(5):
        with pytest.raises(errors.Unreachable):
            async for _ in client.lines("/w", silence=60):
                pass


async def test_established_watch_may_be_silent(monkeypatch):
    monkeypatch.setattr(client_module, "_BEGIN_SECONDS", 0.1)
    server = ScriptedApiServer().then_stream(stay=True)
    async with client_of(server) as client:
        asyncio.get_running_loop().call_later(0.3, server.end.set)
        assert [lines async for lines in client.lines("/w", silence=60)] == [[]]


async def test_rejected_watch_reports_the_reason():
    server = ScriptedApiServer().then(410, {"message": "too old"})
    async with client_of(server) as client:
        with pytest.raises(errors.Expired, match="too old"):
            async for _ in client.lines("/w", silence=5):
                pass


async def test_client_must_be_entered_before_use():
    async with client_of(ScriptedApiServer()) as client:
        pass
    client._session = None
    with pytest.raises(RuntimeError, match="entered"):
        await client.read("/")
