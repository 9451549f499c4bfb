"""``POST /invalidate`` over HTTP, with caches of a few lines."""

import asyncio
import io
import json
import logging
from types import SimpleNamespace

import aiohttp
import pytest
from msgspec import UNSET
from yarl import URL

from support.directories import replace
from support.waiting import until_async
from varnish_gateway import errors
from varnish_gateway.dataplane.invalidation import requests
from varnish_gateway.dataplane.invalidation.page import InvalidatePage
from varnish_gateway.dataplane.invalidation.token_file import TokenFile
from varnish_gateway.dataplane.invalidation.turns import AT_ONCE, CARRIED_OUT, PRESENT
from varnish_gateway.ir.invalidation import LARGEST
from varnish_gateway.runtime.environment import Address
from varnish_gateway.runtime.webserver import WebServer

CI, SHOP = "everything-for-ci", "tokens-of-the-shop"
TOKENS = [{"name": "ci", "token": CI}, {"name": "shop", "token": SHOP, "namespaces": ["shop"]}]
HOST = {"targets": [{"host": "tea.example"}]}


class Cache:
    """Answers each target with the same count, or raises a fault, by itself or when checked; may wait for ``gate``."""

    def __init__(self, count: int) -> None:
        self.may_hold_objects = True
        self.fault: Exception | None = None
        self.fault_of_check: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked = []
        self._count = count

    async def invalidate(self, invalidation, client):
        self.asked.append((client, invalidation))
        await self.gate.wait()
        if self.fault is not None:
            raise self.fault
        return (self._count,) * len(invalidation.targets)

    async def check(self, invalidation):
        assert invalidation.targets
        if self.fault_of_check is not None:
            raise self.fault_of_check


@pytest.fixture
def caches():
    return {"shop/web": Cache(3), "shop/other": Cache(4)}


@pytest.fixture
def tokens(tmp_path):
    path = tmp_path / "tokens.json"
    path.write_text(json.dumps({"tokens": TOKENS}))
    return path


@pytest.fixture
async def url(caches, tokens):
    page = InvalidatePage(lambda: caches, TokenFile(tokens, "--invalidation-tokens"))
    server = WebServer({"POST /invalidate": page.answer}, "--health-addr")
    await server.start(Address("127.0.0.1", 0))
    yield f"http://127.0.0.1:{server.port}/invalidate"
    await server.stop()


@pytest.fixture
async def post(url):
    async with aiohttp.ClientSession() as session:

        async def post(body: object, token: str | None = CI) -> SimpleNamespace:
            data = io.BytesIO(body if isinstance(body, bytes) else json.dumps(body).encode())
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            async with session.post(url, data=data, headers=headers) as answer:
                return SimpleNamespace(status=answer.status, json=await answer.json(), headers=answer.headers)

        yield post


@pytest.fixture
async def connect(url):
    """Give a connection that has sent the head of a request, with further lines."""
    writers = []

    async def connect(lines: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", URL(url).port)
        writers.append(writer)
        writer.write(f"POST /invalidate HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n".encode())
        return reader, writer

    yield connect
    for writer in writers:
        writer.close()


def seen(answer) -> tuple[int, object]:
    return answer.status, answer.json


async def test_counts_are_summed_over_gateways(post, caches):
    assert seen(await post({"targets": [{"host": "a"}, {"tags": ["b"]}]})) == (200, {"objects": [7, 7]})
    for cache in caches.values():
        ((client, invalidation),) = cache.asked
        assert (client, invalidation.mode, invalidation.routes) == ("ci", "hard", UNSET)


async def test_gateway_that_never_served_holds_nothing(post, caches):
    caches["shop/other"].may_hold_objects = False
    assert seen(await post(HOST)) == (200, {"objects": [3]})
    assert caches["shop/other"].asked == []


async def test_nothing_is_confirmed_without_varnishd(post, caches):
    for cache in caches.values():
        cache.may_hold_objects = False
    answer = await post(HOST)
    assert seen(answer) == (503, {"error": "varnishd does not run yet"})
    assert answer.headers["Retry-After"] == "1"


async def test_failure_of_one_gateway_is_not_hidden_by_the_others(post, caches):
    caches["shop/other"].fault = ConnectionRefusedError("connection refused")
    answer = await post(HOST)
    reason = "Gateway shop/other: connection refused; carried out by shop/web; repeat the invalidation"
    assert seen(answer) == (503, {"error": reason})
    assert answer.headers["Retry-After"] == "1"


async def test_what_ghost_rejects_is_the_fault_of_the_client(post, caches):
    for cache in caches.values():
        cache.fault_of_check = errors.BadDocument("targets[0].matching.pattern: unclosed group")
    reason = "targets[0].matching.pattern: unclosed group; nothing is carried out"
    assert seen(await post(HOST)) == (400, {"error": reason})


async def test_a_single_gateway_is_asked_once(post, caches):
    del caches["shop/other"]
    caches["shop/web"].fault_of_check = AssertionError("it says so when it carries it out")
    caches["shop/web"].fault = errors.BadDocument("targets[0].matching.pattern: unclosed group")
    assert seen(await post(HOST)) == (400, {"error": "targets[0].matching.pattern: unclosed group"})


async def test_document_that_one_gateway_rejects_reaches_no_other(post, caches):
    fault = errors.BadDocument("targets[0].uri.target: is no path")
    caches["shop/other"].fault_of_check = fault
    assert seen(await post(HOST)) == (400, {"error": f"Gateway shop/other: {fault}; nothing is carried out"})
    assert caches["shop/web"].asked == []


async def test_gateway_that_does_not_answer_keeps_no_other_from_it(post, caches):
    fault = ConnectionError("it restarts")
    caches["shop/other"].fault_of_check = caches["shop/other"].fault = fault
    reason = "Gateway shop/other: it restarts; carried out by shop/web; repeat the invalidation"
    assert seen(await post(HOST)) == (503, {"error": reason})
    assert len(caches["shop/web"].asked) == 1


async def test_gateway_whose_rules_change_meanwhile_is_named_with_those_that_did(post, caches):
    caches["shop/other"].fault = errors.BadDocument("targets[0].uri.target: is no path")
    reason = "Gateway shop/other: targets[0].uri.target: is no path; carried out by shop/web; repeat the invalidation"
    assert seen(await post(HOST)) == (503, {"error": reason})


async def test_malformed_document_reaches_no_gateway(post, caches):
    assert seen(await post({"targets": []})) == (400, {"error": "targets: write one at least"})
    assert caches["shop/web"].asked == []


@pytest.mark.parametrize("authorization", [None, "Bearer wrong-but-long-enough", f"Basic {CI}", f"Bearer {CI}x"])
async def test_request_without_a_valid_token_is_rejected_unread(url, caches, authorization):
    headers = {} if authorization is None else {"Authorization": authorization}

    async def endless():
        yield b"{"
        await asyncio.Event().wait()

    async with aiohttp.ClientSession() as session, session.post(url, data=endless(), headers=headers) as answer:
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"] == 'Bearer realm="varnish-gateway"'
    assert caches["shop/web"].asked == []


async def test_endpoint_is_off_without_tokens(post, tokens):
    tokens.write_text('{"tokens": []}')
    answer = await post(HOST)
    assert seen(answer) == (404, {"error": "this gateway has no tokens; --invalidation-tokens names a file of them"})


async def test_scoped_token_is_restricted_to_its_namespaces_whatever_serves(post, caches):
    assert seen(await post(HOST, SHOP)) == (200, {"objects": [7]})
    restrictions = [cache.asked[0][1].namespaces for cache in caches.values()]
    assert restrictions == [("shop",), ("shop",)]


@pytest.mark.parametrize(
    "change", [{"targets": [{"route": "blog/pages"}]}, {"routes": ["blog/pages"]}, {"namespaces": ["blog"]}]
)
async def test_route_or_namespace_out_of_scope_is_forbidden(post, caches, change):
    status, content = seen(await post({**HOST, **change}, SHOP))
    assert status == 403
    assert "the token isn't for blog" in content["error"]
    assert caches["shop/web"].asked == []


async def test_large_body_is_rejected_before_it_is_parsed(url):
    async def pieces():
        for _ in range(LARGEST // 65536 + 1):
            yield b" " * 65536

    headers = {"Authorization": f"Bearer {CI}"}
    async with aiohttp.ClientSession() as session, session.post(url, data=pieces(), headers=headers) as answer:
        assert answer.status == 413
        assert "send fewer targets at once" in (await answer.json())["error"]


async def test_body_that_is_announced_as_large_is_rejected_unread(connect):
    reader, _ = await connect(f"Authorization: Bearer {CI}\r\nContent-Length: {LARGEST + 1}")
    assert (await reader.readuntil(b"\r\n")).split()[1] == b"413"


async def test_largest_body_is_taken_and_its_restriction_counts(post):
    document = json.dumps(HOST).encode()
    largest = document + b" " * (LARGEST - len(document))
    assert (await post(largest)).status == 200
    tag = "x" * (LARGEST - len('{"targets":[{"tags":[""]}],"mode":"hard"}') - 5)
    assert (await post({"targets": [{"tags": [tag]}]})).status == 200
    answer = await post({"targets": [{"tags": [tag]}]}, SHOP)
    assert (answer.status, "with the token's scope" in answer.json["error"]) == (413, True)


async def test_slow_body_is_given_up(monkeypatch, url):
    monkeypatch.setattr(requests, "BODY_SECONDS", 0.05)

    async def slow():
        yield b"{"
        await asyncio.Event().wait()

    headers = {"Authorization": f"Bearer {CI}"}
    async with aiohttp.ClientSession() as session, session.post(url, data=slow(), headers=headers) as answer:
        assert answer.status == 408


async def test_client_that_leaves_in_the_middle_is_no_bug(caches, caplog, connect, post):
    for _ in range(AT_ONCE + 1):
        _, writer = await connect(f"Authorization: Bearer {CI}\r\nContent-Length: 99")
        writer.write(b"{")
        await writer.drain()
        await asyncio.sleep(0.02)  # the page may have begun to read, or not
        writer.transport.abort()
    assert (await post(HOST)).status == 200
    assert len(caches["shop/web"].asked) == 1
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_too_many_at_once_are_told_to_come_again_and_keep_no_other_client_waiting(post, caches):
    cache = caches["shop/web"]
    cache.gate.clear()
    of_ci = {asyncio.create_task(post(HOST)) for _ in range(PRESENT + 1)}
    (rejected,), waiting = await asyncio.wait(of_ci, return_when=asyncio.FIRST_COMPLETED)
    assert rejected.result().status == 429
    assert rejected.result().headers["Retry-After"] == "1"
    of_shop = asyncio.create_task(post(HOST, SHOP))
    await until_async(lambda: [client for client, _ in cache.asked] == ["ci"] * AT_ONCE + ["shop"])
    cache.gate.set()
    assert {answer.status for answer in await asyncio.gather(*waiting, of_shop)} == {200}


async def test_ghost_carries_out_few_at_once_of_all_clients(post, caches, tokens):
    names = [f"client-{number:02}-of-many" for number in range(CARRIED_OUT + 1)]
    replace(tokens, json.dumps({"tokens": [{"name": name, "token": name} for name in names]}))
    cache = caches["shop/web"]
    cache.gate.clear()
    asking = [asyncio.create_task(post(HOST, name)) for name in names]
    await until_async(lambda: len(cache.asked) == CARRIED_OUT)
    assert (await post({"targets": []}, "no-token-of-this")).status == 401, "the last one had the time to come too far"
    assert len(cache.asked) == CARRIED_OUT
    cache.gate.set()
    assert {answer.status for answer in await asyncio.gather(*asking)} == {200}


async def test_failed_authorisations_are_counted_in_few_lines_without_tokens(post, caplog, monkeypatch):
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(requests, "time", SimpleNamespace(monotonic=lambda: clock.now))
    for _ in range(5):
        await post(HOST, "wrong-but-long-enough")
    clock.now += requests.LOG_SECONDS
    await post(HOST, None)
    messages = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert messages == [
        "1 requests without a valid token, the last from 127.0.0.1",
        "5 requests without a valid token, the last from 127.0.0.1",
    ]
