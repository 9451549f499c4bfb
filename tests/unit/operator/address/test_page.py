"""``POST /gateways/NAMESPACE/NAME/invalidate`` over HTTP, with pods of a few lines."""

import asyncio
import contextlib
import io
import json
import logging
from types import SimpleNamespace

import aiohttp
import pytest

from support.waiting import until_async
from varnish_gateway.api import Key
from varnish_gateway.dataplane.invalidation import requests
from varnish_gateway.dataplane.invalidation.token_set import NONE, TokenSet
from varnish_gateway.operator.address import page as module
from varnish_gateway.operator.address import places
from varnish_gateway.operator.address.gateways import AddressedGateway
from varnish_gateway.operator.address.page import PATH, AddressPage
from varnish_gateway.operator.address.server import InvalidationServer
from varnish_gateway.operator.observe.pods import GatewayPod
from varnish_gateway.operator.status.answers import InvalidationAnswer
from varnish_gateway.runtime.environment import Address

CI, SHOP = "everything-for-ci", "tokens-of-the-shop"
TOKENS = [{"name": "ci", "token": CI}, {"name": "shop", "token": SHOP, "namespaces": ["shop"]}]
HOST = {"targets": [{"host": "tea.example"}]}
WEB = Key("Gateway", "shop", "web")


class World:
    """Two Gateways, shop/web and blog/web, with two pods each; shop/web has ``tokens``."""

    def __init__(self) -> None:
        self.tokens: TokenSet | None = TokenSet(json.dumps({"tokens": TOKENS}).encode())
        self.operator_token = "f" * 64
        self.problem: str | None = None
        self.asked: list[tuple[str, dict, str]] = []
        self.answers = dict.fromkeys(("shop-a", "shop-b", "blog-a", "blog-b"), InvalidationAnswer((2,)))
        self.gate = asyncio.Event()
        self.gate.set()
        self.page = AddressPage(self, self, self, lambda: self.problem)

    def find(self, namespace: str, name: str) -> AddressedGateway | None:
        key = Key("Gateway", namespace, name)
        if name != "web" or namespace not in ("shop", "blog"):
            return None
        pods = tuple(GatewayPod(f"{namespace}-{one}", key, "192.0.2.1", is_ready=True) for one in "ab")
        return AddressedGateway(key, "purgers", self.operator_token, lambda: pods)

    async def of(self, gateway: Key, name: str) -> TokenSet | None:
        assert name == "purgers"
        return self.tokens if gateway == WEB else NONE

    async def invalidate_one(self, pod: GatewayPod, content: bytes, token: str) -> InvalidationAnswer:
        self.asked.append((pod.name, json.loads(content), token))
        await self.gate.wait()
        return self.answers[pod.name]


@pytest.fixture
async def world():
    return World()


@pytest.fixture
async def port(world):
    server = InvalidationServer(PATH, world.page.answer)
    await server.start(Address("127.0.0.1", 0))
    running = asyncio.create_task(server.run())
    yield server.port
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    await server.stop()


@pytest.fixture
async def post(port):
    async with aiohttp.ClientSession() as session:

        async def post(body: object, token: str | None = CI, gateway: str = "shop/web") -> SimpleNamespace:
            data = io.BytesIO(body if isinstance(body, bytes) else json.dumps(body).encode())
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            url = f"http://127.0.0.1:{port}/gateways/{gateway}/invalidate"
            async with session.post(url, data=data, headers=headers) as answer:
                return SimpleNamespace(status=answer.status, json=await answer.json(), headers=answer.headers)

        yield post


def seen(answer) -> tuple[int, object]:
    return answer.status, answer.json


async def test_every_pod_is_asked_with_the_operators_token_and_counts_are_summed(post, world, caplog):
    with caplog.at_level(logging.INFO):
        status, content = seen(await post(HOST))
    assert (status, content) == (
        200,
        {
            "objects": [4],
            "pods": [
                {"name": "shop-a", "result": "confirmed", "objects": 2},
                {"name": "shop-b", "result": "confirmed", "objects": 2},
            ],
        },
    )
    assert [(pod, token) for pod, _, token in world.asked] == [("shop-a", "f" * 64), ("shop-b", "f" * 64)]
    assert world.asked[0][1] == {**HOST, "mode": "hard"}
    assert world.page.answers == {"confirmed": 2}
    assert world.page.statuses == {200: 1}
    line = "Gateway shop/web: hard invalidation by ci: 4 objects; confirmed by 2 pods, 1 targets"
    assert line in [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(
    ("token", "gateway"),
    [(None, "shop/web"), ("wrong-but-long-enough", "shop/web"), (CI, "blog/web")],
    ids=["none", "wrong", "of another Gateway"],
)
async def test_request_without_a_token_of_the_gateway_is_rejected(post, world, token, gateway):
    answer = await post(HOST, token, gateway)
    assert answer.status == 401
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="varnish-gateway"'
    assert world.asked == []


@pytest.mark.parametrize("gateway", ["shop/other", "other/web"])
async def test_gateway_without_tokens_has_no_address(post, gateway):
    status, content = seen(await post(HOST, CI, gateway))
    assert status == 404
    assert content["error"].startswith(f"the operator has no Gateway {gateway} with tokens; the annotation ")


async def test_tokens_that_can_not_be_read_are_no_reason_to_reject(post, world):
    world.tokens = None
    answer = await post(HOST)
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")


async def test_scoped_token_is_restricted_to_its_scope(post, world):
    assert (await post(HOST, SHOP)).status == 200
    assert world.asked[0][1]["namespaces"] == ["shop"]


async def test_route_out_of_scope_is_forbidden(post, world):
    status, content = seen(await post({"targets": [{"route": "blog/pages"}]}, SHOP))
    assert (status, "the token isn't for blog/pages" in content["error"]) == (403, True)
    assert world.asked == []


async def test_malformed_document_reaches_no_pod(post, world):
    assert seen(await post({"targets": []})) == (400, {"error": "targets: write one at least"})
    assert world.asked == []


async def test_large_document_is_rejected(post, world):
    status, content = seen(await post(b" " * (module.LARGEST_BODY + 1)))
    assert (status, "send fewer targets at once" in content["error"]) == (413, True)
    assert world.asked == []


async def test_document_that_a_pod_rejects_is_the_fault_of_the_client(post, world):
    world.answers["shop-a"] = InvalidationAnswer(None, "targets[0].matching.pattern: unclosed", is_rejection=True)
    status, content = seen(await post(HOST))
    assert (status, content["error"]) == (400, "targets[0].matching.pattern: unclosed")
    assert content["pods"][0]["result"] == "rejected"


async def test_pod_that_does_not_confirm_in_time_is_named_with_what_the_others_did(post, world, monkeypatch):
    monkeypatch.setattr(module, "CONFIRM_SECONDS", 0.1)
    world.answers["shop-b"] = InvalidationAnswer(None, "no answer: connection refused")
    answer = await post(HOST)
    assert (answer.status, answer.headers["Retry-After"]) == (504, "1")
    assert answer.json == {
        "objects": [2],
        "pods": [
            {"name": "shop-a", "result": "confirmed", "objects": 2},
            {"name": "shop-b", "result": "unanswered", "message": "no answer: connection refused"},
        ],
        "error": "not confirmed within 0.1 s by shop-b; 2 objects; confirmed by 1 pods; repeat the invalidation",
    }


async def test_operator_that_does_not_see_the_pods_does_not_claim_that_all_have_confirmed(post, world):
    world.problem = "Pod can't be watched now: no answer"
    answer = await post(HOST)
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
    assert "Pod can't be watched now: no answer" in answer.json["error"]
    assert [pod["result"] for pod in answer.json["pods"]] == ["confirmed"] * 2


async def test_gateway_whose_pods_do_not_know_the_operator_yet_is_not_asked(post, world):
    world.operator_token = ""
    assert (await post(HOST)).status == 503
    assert world.asked == []


async def test_too_many_of_a_token_are_told_to_come_again(post, world):
    world.gate.clear()
    asking = {asyncio.create_task(post(HOST)) for _ in range(module.OF_TOKEN + 1)}
    (rejected,), waiting = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
    assert (rejected.result().status, rejected.result().headers["Retry-After"]) == (429, "1")
    assert len(world.asked) == 2 * module.OF_TOKEN_AT_ONCE, "of two pods each"
    world.gate.set()
    assert {answer.status for answer in await asyncio.gather(*waiting)} == {200}


async def test_request_does_not_wait_for_its_turn_for_ever(post, world, monkeypatch):
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.1)
    world.gate.clear()
    first = [asyncio.create_task(post(HOST)) for _ in range(module.OF_TOKEN_AT_ONCE)]
    await until_async(lambda: len(world.asked) == 2 * module.OF_TOKEN_AT_ONCE)
    assert (await post(HOST)).status == 429
    world.gate.set()
    assert {answer.status for answer in await asyncio.gather(*first)} == {200}
    assert (await post(HOST)).status == 200


def give_tokens(world: World, count: int) -> list[str]:
    """Give many tokens to shop/web, and one to blog/web; return the former."""
    names = [f"client-{number:02}-of-many" for number in range(count)]
    many = TokenSet(json.dumps({"tokens": [{"name": name, "token": name} for name in names]}).encode())
    blog = TokenSet(json.dumps({"tokens": [{"name": "blog", "token": "token-of-the-blog"}]}).encode())

    async def of(gateway: Key, _: str) -> TokenSet:
        return many if gateway == WEB else blog

    world.of = of
    return names


async def test_namespace_keeps_room_for_others(world, post):
    """Many tokens of one namespace hold few of the turns that there are in all."""
    names = give_tokens(world, module.OF_NAMESPACE_AT_ONCE + 2)
    world.gate.clear()
    asking = [asyncio.create_task(post(HOST, name)) for name in names]
    await until_async(lambda: len(world.asked) == 2 * module.OF_NAMESPACE_AT_ONCE)
    other = asyncio.create_task(post(HOST, "token-of-the-blog", "blog/web"))
    await until_async(lambda: [pod for pod, *_ in world.asked[-2:]] == ["blog-a", "blog-b"])
    assert len(world.asked) == 2 * module.OF_NAMESPACE_AT_ONCE + 2
    world.gate.set()
    assert {answer.status for answer in await asyncio.gather(*asking, other)} == {200}


async def test_namespace_that_fills_its_places_leaves_those_of_others(world, post, monkeypatch):
    """Requests that wait for the turn of their token hold places, too."""
    monkeypatch.setattr(places, "OF_NAMESPACE", 8)
    names = give_tokens(world, 4)
    world.gate.clear()
    asking = {asyncio.create_task(post(HOST, name)) for name in names for _ in range(4)}
    await until_async(lambda: sum(one.done() for one in asking) == 8)
    assert {one.result().status for one in asking if one.done()} == {429}
    other = asyncio.create_task(post(HOST, "token-of-the-blog", "blog/web"))
    await until_async(lambda: "blog-a" in [pod for pod, *_ in world.asked])
    world.gate.set()
    assert (await other).status == 200
    assert {answer.status for answer in await asyncio.gather(*asking)} == {200, 429}


async def test_document_with_too_many_targets_reaches_no_pod(world, post):
    assert (await post({"targets": HOST["targets"] * (module.TARGETS + 1)})).status == 413
    assert world.asked == []


async def test_slow_body_is_given_up(port, monkeypatch):
    monkeypatch.setattr(requests, "BODY_SECONDS", 0.05)

    async def slow():
        yield b"{"
        await asyncio.Event().wait()

    headers, url = {"Authorization": f"Bearer {CI}"}, f"http://127.0.0.1:{port}/gateways/shop/web/invalidate"
    async with aiohttp.ClientSession() as session, session.post(url, data=slow(), headers=headers) as answer:
        assert answer.status == 408
