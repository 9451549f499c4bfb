"""``POST /inspect`` over HTTP, with caches of a few lines."""

import json

import aiohttp
import pytest
from msgspec import UNSET

from varnish_gateway import errors
from varnish_gateway.dataplane.invalidation.inspect_page import InspectPage
from varnish_gateway.dataplane.invalidation.token_file import TokenFile
from varnish_gateway.ir.inspection import Stored, StoredVariant
from varnish_gateway.ir.invalidation import InvalidationTarget, UriTarget
from varnish_gateway.runtime.environment import Address
from varnish_gateway.runtime.webserver import WebServer

CI, SHOP = "everything-for-ci", "tokens-of-the-shop"
TOKENS = [{"name": "ci", "token": CI}, {"name": "shop", "token": SHOP, "namespaces": ["shop"]}]
VARIANT = StoredVariant(
    rule="shop/tea/0",
    policy="shop/pages",
    status=200,
    fresh=True,
    age=1,
    lifetime=10,
    ttl=9,
    grace=9,
    stale_if_error=9,
    kept=9,
    must_revalidate=False,
    always_revalidate=False,
    hits=3,
    size=None,
    vary="",
    tags=("a",),
    more_tags=0,
    reason="max-age",
)
ASKED = {"host": "tea.example", "target": "/a?b"}


class Cache:
    """Holds what it is given, or raises a fault."""

    def __init__(self, *variants: StoredVariant) -> None:
        self.may_hold_objects = True
        self.fault: Exception | None = None
        self.asked = []
        self._variants = variants

    async def inspect(self, invalidation) -> Stored:
        self.asked.append(invalidation)
        if self.fault is not None:
            raise self.fault
        return Stored(self._variants, more=False)


@pytest.fixture
def caches():
    return {"shop/web": Cache(VARIANT), "shop/other": Cache()}


@pytest.fixture
async def post(caches, tmp_path):
    (tmp_path / "tokens.json").write_text(json.dumps({"tokens": TOKENS}))
    page = InspectPage(lambda: caches, TokenFile(tmp_path / "tokens.json", "--invalidation-tokens"))
    server = WebServer({"POST /inspect": page.answer}, "--health-addr")
    await server.start(Address("127.0.0.1", 0))
    async with aiohttp.ClientSession() as session:

        async def post(body: object, token: str = CI) -> tuple[int, dict]:
            headers = {"Authorization": f"Bearer {token}"}
            async with session.post(f"http://127.0.0.1:{server.port}/inspect", json=body, headers=headers) as answer:
                return answer.status, await answer.json()

        yield post
    await server.stop()


async def test_each_gateway_says_what_it_holds_for_the_url(post, caches):
    status, found = await post(ASKED)
    (variant,) = found["gateways"][1].pop("variants")
    assert (status, found) == (200, {"gateways": [{"name": "shop/other"}, {"name": "shop/web"}]})
    assert (variant["policy"], variant["size"], variant["staleIfError"]) == ("shop/pages", None, 9)
    (asked,) = caches["shop/web"].asked
    assert asked.targets == (InvalidationTarget(uri=UriTarget("tea.example", "/a?b")),)
    assert asked.routes is UNSET


async def test_token_with_a_scope_sees_what_it_may_invalidate(post, caches):
    assert (await post(ASKED, SHOP))[0] == 200
    assert [cache.asked[0].namespaces for cache in caches.values()] == [("shop",)] * 2


async def test_request_without_a_valid_token_learns_nothing(post, caches):
    assert (await post(ASKED, "wrong-but-long-enough"))[0] == 401
    assert caches["shop/web"].asked == []


async def test_gateway_that_does_not_answer_keeps_no_other_from_it(post, caches):
    caches["shop/other"].fault = ConnectionRefusedError("connection refused")
    _, found = await post(ASKED)
    other, web = found["gateways"]
    assert other == {"name": "shop/other", "error": "connection refused"}
    assert len(web["variants"]) == 1


async def test_gateway_that_never_served_holds_nothing(post, caches):
    caches["shop/web"].may_hold_objects = False
    assert await post(ASKED) == (200, {"gateways": [{"name": "shop/other"}, {"name": "shop/web"}]})
    assert caches["shop/web"].asked == []


async def test_wrong_question_names_its_field(post, caches):
    assert await post({"host": "a"}) == (400, {"error": "Object missing required field `target`"})
    status, found = await post({"host": "a", "target": 1})
    assert (status, found["error"].split(":")[0]) == (400, "target")
    for cache in caches.values():
        cache.fault = errors.BadDocument("targets[0].uri.host: is no host name")
    assert await post(ASKED) == (400, {"error": "targets[0].uri.host: is no host name"})
