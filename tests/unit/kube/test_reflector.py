"""Reflectors that meet what a healthy API server does not send. The rest is in tests/apiserver."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import msgspec
import pytest

from support.kube.scripted_api_server import ScriptedApiServer, client_of
from support.waiting import until_async
from varnish_gateway.api import Key
from varnish_gateway.kube.client import Client
from varnish_gateway.kube.reflector import Reflector
from varnish_gateway.kube.resources import RESOURCES

CONFIG_MAP = RESOURCES["ConfigMap"]


def thing(name: str, version: str) -> dict:
    return {"metadata": {"name": name, "namespace": "n", "resourceVersion": version}}


def page(*things: dict, version: str, onward: str = "") -> dict:
    metadata = {"resourceVersion": version, "continue": onward}
    return {"kind": "ConfigMapList", "metadata": metadata, "items": list(things)}


def event(kind: str, **what) -> bytes:
    return json.dumps({"type": kind, "object": what}).encode() + b"\n"


@asynccontextmanager
async def reflecting(server: ScriptedApiServer, *, knows: tuple[Key, str] | None = None):
    """Give the reflector, and what it delivered: (name, resource version or None) in order.

    ``knows``: what comes as the answer to a write after the first list.
    """
    delivered = []

    def deliver(changes):
        if knows and not delivered:
            reflector.note(*knows)
        delivered.extend((key.name, value and value["metadata"]["resourceVersion"]) for key, value in changes.items())

    async with client_of(server, attempts=1) as client:
        reflector = Reflector(client, CONFIG_MAP, msgspec.json.decode, deliver, namespace="n")
        task = asyncio.create_task(reflector.run())
        try:
            yield reflector, delivered
            assert not task.done(), task.exception()
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def test_object_from_a_write_is_not_delivered_again():
    server = (
        ScriptedApiServer()
        .then(200, page(thing("a", "1"), version="5"))
        .then_stream(event("MODIFIED", **thing("a", "6")))
        .then_stream(event("MODIFIED", **thing("a", "7")))
        .then_stream(event("DELETED", **thing("a", "8")), stay=True)
    )
    async with reflecting(server, knows=(Key("ConfigMap", "n", "a"), "6")) as (_, delivered):
        await until_async(lambda: ("a", None) in delivered, "no deletion")
        assert delivered == [("a", "1"), ("a", "7"), ("a", None)]


async def test_object_recreated_by_a_write_is_kept():
    """One chunk holds its deletion and its successor, whose creation the answer to a write reported before."""
    server = (
        ScriptedApiServer()
        .then(200, page(thing("a", "10"), version="10"))
        .then_stream(event("DELETED", **thing("a", "11")) + event("ADDED", **thing("a", "12")))
        .then_stream(event("DELETED", **thing("a", "20")), stay=True)
    )
    async with reflecting(server, knows=(Key("ConfigMap", "n", "a"), "12")) as (reflector, delivered):
        await until_async(lambda: ("a", None) in delivered, "no deletion")
        assert delivered == [("a", "10"), ("a", "12"), ("a", None)]
        assert reflector._metrics.objects["ConfigMap"] == 0


async def test_broken_watch_resumes_where_it_stopped():
    server = (
        ScriptedApiServer()
        .then(200, page(thing("a", "1"), version="5"))
        .then_stream(event("MODIFIED", **thing("a", "6")), event("BOOKMARK", metadata={"resourceVersion": "9"}))
        .then_break()
        .then_stream(event("DELETED", **thing("a", "10")), stay=True)
    )
    async with reflecting(server) as (reflector, delivered):
        await until_async(lambda: ("a", None) in delivered, "no deletion")
        assert delivered == [("a", "1"), ("a", "6"), ("a", None)]
        assert "resourceVersion=5&" in server.asked[1]
        assert "resourceVersion=9&" in server.asked[2]
        assert "resourceVersion=9&" in server.asked[3]
        assert reflector.problem is None


@pytest.mark.parametrize("garbage", [b"garbage\n", b'{"type": "\xff", "object": {}}\n'], ids=["no JSON", "no UTF-8"])
async def test_invalid_event_causes_a_relist(garbage):
    server = (
        ScriptedApiServer()
        .then(200, page(thing("a", "1"), thing("b", "1"), version="5"))
        .then_stream(event("ADDED", **thing("c", "6")), garbage)
        .then(200, page(thing("a", "2"), thing("c", "6"), version="7"))
        .then_stream(stay=True)
    )
    async with reflecting(server) as (_, delivered):
        await until_async(lambda: ("b", None) in delivered, "no deletion")
        assert delivered == [("a", "1"), ("b", "1"), ("c", "6"), ("a", "2"), ("b", None)]


async def test_error_page_of_a_proxy_is_a_temporary_problem():
    server = (
        ScriptedApiServer()
        .then(200, b"<html>we are back soon</html>", **{"Content-Type": "text/html"})
        .then(200, page(thing("a", "1"), version="5"))
        .then_stream(stay=True)
    )
    async with reflecting(server) as (reflector, delivered):
        async with asyncio.timeout(10):
            await reflector.synced.wait()
        assert delivered == [("a", "1")]


NO_LISTS = {
    "nothing": {},
    "another kind": {"kind": "Status", "status": "Success"},
    "the list of another kind": page(version="9") | {"kind": "SecretList"},
    "no items": {"kind": "ConfigMapList", "metadata": {"resourceVersion": "9"}},
    "items of another type": page(version="9") | {"items": {}},
    "no version": page(version=""),
    "an item without a name": page({"metadata": {"namespace": "n"}}, version="9"),
    "a cut-off page": b'{"kind": "ConfigMapList", "metadata": {"resourceVersion": "9"}, "items": [',
    "a list, no object": b"[]",
}


@pytest.mark.parametrize("answer", NO_LISTS.values(), ids=NO_LISTS)
async def test_json_that_is_no_list_is_a_problem_and_deletes_nothing(answer):
    server = (
        ScriptedApiServer()
        .then(200, page(thing("a", "1"), version="5"))
        .then_stream(event("ERROR", code=410, message="too old"))
        .then(200, answer)
        .then(200, page(thing("a", "1"), thing("b", "8"), version="9"))
        .then_stream(stay=True)
    )
    async with reflecting(server) as (_, delivered):
        await until_async(lambda: ("b", "8") in delivered, "no second list")
        assert delivered == [("a", "1"), ("b", "8")]


@pytest.mark.parametrize("answer", [{}, {"kind": "Status"}, b"[]"], ids=["nothing", "another kind", "a list"])
async def test_discovery_that_is_no_list_of_kinds_deletes_nothing(answer):
    """A watch answers 404, and what should say whether the kind is installed says something else."""
    server = ScriptedApiServer().then(200, page(thing("a", "1"), version="5")).then(404, {"message": "not found"})
    server.then(200, answer).then_stream(event("ADDED", **thing("b", "8")), stay=True)
    async with reflecting(server) as (reflector, delivered):
        await until_async(lambda: ("b", "8") in delivered, "the watch does not go on")
        assert delivered == [("a", "1"), ("b", "8")]
        assert not reflector.absent


async def test_error_event_causes_a_relist():
    server = (
        ScriptedApiServer()
        .then(200, page(thing("a", "1"), version="5"))
        .then_stream(event("ERROR", code=500, message="storage is broken"))
        .then(200, page(version="7"))
        .then_stream(stay=True)
    )
    async with reflecting(server) as (reflector, delivered):
        await until_async(lambda: ("a", None) in delivered, "no deletion")
        await until_async(lambda: reflector.problem is None, "it is a problem still")


async def test_expired_list_restarts_without_repeating_deliveries():
    server = (
        ScriptedApiServer()
        .then(200, page(thing("a", "1"), version="5", onward="next"))
        .then(410, {"message": "the continue token is too old"})
        .then(200, page(thing("a", "1"), version="8", onward="next"))
        .then(200, page(thing("b", "1"), version="8"))
        .then_stream(stay=True)
    )
    async with reflecting(server) as (reflector, delivered):
        async with asyncio.timeout(10):
            await reflector.synced.wait()
        assert delivered == [("a", "1"), ("b", "1")]


async def test_object_written_during_a_list_is_not_deleted_by_it():
    server = (
        ScriptedApiServer()
        .then(200, page(thing("a", "1"), version="5", onward="next"))
        .then(200, page(thing("b", "1"), version="5"))
        .then_stream(event("ADDED", **thing("new", "6")) + event("ADDED", **thing("c", "7")), stay=True)
    )
    async with reflecting(server, knows=(Key("ConfigMap", "n", "new"), "6")) as (_, delivered):
        await until_async(lambda: ("c", "7") in delivered, "no watch")
        assert delivered == [("a", "1"), ("b", "1"), ("c", "7")]


async def test_object_deleted_before_a_running_list_is_delivered_as_deleted():
    """The answer to the write comes between two pages."""
    server = (
        ScriptedApiServer()
        .then(200, page(thing("b", "1"), version="10", onward="more"))
        .then(200, page(version="10"))
        .then_stream(stay=True)
    )
    async with reflecting(server, knows=(Key("ConfigMap", "n", "a"), "6")) as (_, delivered):
        await until_async(lambda: ("a", None) in delivered, "no deletion")
        assert delivered == [("b", "1"), ("a", None)]


async def test_resource_version_that_is_rejected_repeatedly_causes_a_relist():
    """After a restore of etcd the API server is behind us, and says so with 504."""
    server = ScriptedApiServer().then(200, page(thing("a", "900"), version="999"))
    for _ in range(3):
        server.then(504, {"message": "Too large resource version"})
    server.then(200, page(thing("a", "3"), version="4")).then_stream(stay=True)
    async with reflecting(server) as (_, delivered):
        await until_async(lambda: ("a", "3") in delivered, "no new list")


async def test_server_that_rejects_watches_is_not_listed_each_time():
    server = ScriptedApiServer().then(200, page(version="5"))
    for _ in range(3):
        for _ in range(3):
            server.then(503, {"message": "too many watches"})
        server.then(200, page(version="5"))
    server.then_stream(stay=True)
    async with reflecting(server) as (reflector, _):
        await until_async(lambda: len(server.asked) == 14 and not reflector.problem, "no watch")
        assert len(server.lists) == 4


async def test_throttled_watch_waits_and_does_not_relist():
    server = ScriptedApiServer().then(200, page(version="5"))
    for _ in range(4):
        server.then(429, {"message": "busy"}, **{"Retry-After": "0.3"})
    server.then_stream(stay=True)
    began = time.monotonic()
    async with reflecting(server) as (reflector, _):
        await until_async(lambda: len(server.asked) == 6 and not reflector.problem, "no watch")
        assert len(server.lists) == 1
        assert time.monotonic() - began > 4 * 0.3


async def test_events_of_one_chunk_are_delivered_together():
    both = event("ADDED", **thing("a", "6")) + event("ADDED", **thing("b", "7")) + event("MODIFIED", **thing("a", "8"))
    server = ScriptedApiServer().then(200, page(version="5")).then_stream(both, stay=True)
    async with reflecting(server) as (_, delivered):
        await until_async(lambda: delivered, "nothing")
        assert delivered == [("a", "8"), ("b", "7")]


async def test_silent_server_is_noticed_within_two_minutes(monkeypatch):
    silences = []
    server = ScriptedApiServer().then(200, page(version="5")).then_stream(stay=True)

    async def lines(_: Client, path: str, *, silence: float) -> AsyncIterator[list[bytes]]:
        silences.append((silence, int(path.partition("timeoutSeconds=")[2])))
        await asyncio.Event().wait()
        yield []

    monkeypatch.setattr(Client, "lines", lines)
    async with reflecting(server):
        await until_async(lambda: silences, "no watch")
    [(silence, asked)] = silences
    assert 60 < asked < silence < 120


async def test_watch_that_closes_at_once_is_retried_with_backoff():
    server = ScriptedApiServer().then(200, page(version="5")).then_stream()
    async with reflecting(server) as (reflector, _):
        await until_async(lambda: len(server.asked) > 4, "no new watch")
        assert reflector._backoff.failures >= 3
