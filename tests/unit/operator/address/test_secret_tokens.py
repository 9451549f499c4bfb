"""Tokens from a Secret that is read when they are needed. Time is virtual."""

import asyncio
import base64
import json

import pytest

from support.simulation.virtualtime import in_virtual_time, run
from varnish_gateway import errors
from varnish_gateway.api import Key
from varnish_gateway.operator.address import secret_tokens as module
from varnish_gateway.operator.address.secret_tokens import AT_ONCE, FRESH_SECONDS, KEY, LARGEST, SecretTokens

GATEWAY = Key("Gateway", "shop", "web")
CI, CMS = "a" * 16, "b" * 16


def document(**tokens: str) -> bytes:
    return json.dumps({"tokens": [{"name": name, "token": token} for name, token in tokens.items()]}).encode()


class ApiServer:
    """Has Secrets by name, each a document of tokens, data as it is, or an error."""

    def __init__(self, **secrets: bytes | dict | Exception) -> None:
        self.secrets = secrets
        self.version = 1
        self.reads: list[tuple[str, str, str]] = []
        self.at_once = self.most_at_once = 0
        self.problems: list[tuple[Key, str]] = []
        self.tokens = SecretTokens(self, lambda *problem: self.problems.append(problem))

    def put(self, name: str, secret: bytes | dict | Exception) -> None:
        self.version += 1
        self.secrets[name] = secret

    async def get(self, resource, name, *, namespace=""):
        self.reads.append((resource.kind, namespace, name))
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        await asyncio.sleep(0.01)
        self.at_once -= 1
        secret = self.secrets.get(name, errors.NotFound("no such Secret", status=404))
        if isinstance(secret, Exception):
            raise secret
        data = {KEY: base64.b64encode(secret).decode()} if isinstance(secret, bytes) else secret
        metadata = {"name": name, "uid": "u", "resourceVersion": str(self.version)}
        return json.dumps({"metadata": metadata, "type": "Opaque", "data": data}).encode()

    async def holder(self, token: str, name: str = "purgers") -> str | None:
        """Return whose token it is, "unreadable" where that can't be known."""
        tokens = await self.tokens.of(GATEWAY, name)
        if tokens is None:
            return "unreadable"
        found = tokens.holder(f"Bearer {token}")
        return None if found is None else found.name


async def later() -> None:
    await asyncio.sleep(FRESH_SECONDS)


@in_virtual_time
async def test_secret_is_read_by_name_in_the_namespace_of_the_gateway_once_for_requests_of_a_moment():
    server = ApiServer(purgers=document(ci=CI))
    assert await asyncio.gather(*(server.holder(CI) for _ in range(20))) == ["ci"] * 20
    assert server.reads == [("Secret", "shop", "purgers")]
    assert server.problems == []


@in_virtual_time
async def test_changed_secret_counts_after_a_moment():
    server = ApiServer(purgers=document(ci=CI))
    assert await server.holder(CI) == "ci"
    server.put("purgers", document(cms=CMS))
    assert await server.holder(CI) == "ci"
    await later()
    assert (await server.holder(CI), await server.holder(CMS)) == (None, "cms")
    del server.secrets["purgers"]
    await later()
    assert await server.holder(CMS) is None, "a deleted one has no tokens"
    assert [problem for _, problem in server.problems] == [
        "Secret shop/purgers does not exist, so no client may invalidate; create it, or remove the annotation"
    ]
    server.put("purgers", document(cms=CMS))
    await later()
    assert await server.holder(CMS) == "cms"


@pytest.mark.parametrize(
    ("secret", "reason"),
    [
        (document(ci=CI)[:-1], "Secret shop/purgers, key tokens.json: Input data was truncated"),
        (document(ci="short-and-so"), "Secret shop/purgers, key tokens.json: tokens[0].token: write 16 letters"),
        (b" " * (LARGEST + 1), f"Secret shop/purgers, key tokens.json: it has more than {LARGEST} bytes"),
        ({KEY: "not base64!"}, "Secret shop/purgers, key tokens.json: it is not in base64"),
        (errors.Unreachable("no answer"), "Secret shop/purgers can't be read: no answer"),
        (errors.Forbidden("no right", status=403), "Secret shop/purgers can't be read: no right"),
    ],
    ids=["half", "weak", "large", "no base64", "away", "forbidden"],
)
def test_mistake_is_reported_once_and_the_tokens_from_before_count(secret, reason):
    async def test() -> None:
        server = ApiServer(purgers=document(ci=CI))
        assert await server.holder(CI) == "ci"
        server.put("purgers", secret)
        for _ in range(3):
            await later()
            assert await server.holder(CI) == "ci"
        ((gateway, problem),) = server.problems
        assert (gateway, problem.startswith(reason)) == (GATEWAY, True), problem
        assert problem.endswith("the tokens from before count")
        assert CI not in problem
        assert "short-and-so" not in problem
        server.put("purgers", document(cms=CMS))
        await later()
        assert (await server.holder(CI), await server.holder(CMS)) == (None, "cms")

    run(test())


@pytest.mark.parametrize("data", [{}, {"other": "eA=="}], ids=["empty", "other key"])
def test_tokens_that_are_taken_back_count_no_more(data):
    async def test() -> None:
        server = ApiServer(purgers=document(ci=CI))
        assert await server.holder(CI) == "ci"
        server.put("purgers", data)
        for _ in range(2):
            await later()
            assert await server.holder(CI) is None
        assert [problem for _, problem in server.problems] == [
            "Secret shop/purgers has no key tokens.json, so no client may invalidate; add a document of tokens"
        ]

    run(test())


@pytest.mark.parametrize("name", ["../../other/secrets/theirs", "a/b", "a?b", "A", "..", "a" * 254])
def test_annotation_that_is_no_name_reads_nothing(name):
    """It would become a part of a path, and so name a Secret of another namespace."""

    async def test() -> None:
        server = ApiServer(**{name: document(ci=CI)})
        assert await server.holder(CI, name) is None
        assert server.reads == []
        ((_, problem),) = server.problems
        assert problem == (
            "annotation gateway.varnish-software.com/invalidation-tokens: write the name of a Secret of the namespace"
        )

    run(test())


@in_virtual_time
async def test_secret_that_was_never_read_is_no_answer_while_the_api_server_is_away():
    server = ApiServer(purgers=errors.Unreachable("no answer"))
    assert await server.holder(CI) == "unreadable"
    assert await server.holder(CI) == "unreadable"
    assert len(server.reads) == 1, "the API server is not asked for each request"
    server.put("purgers", document(ci=CI))
    await later()
    assert await server.holder(CI) == "ci"


@in_virtual_time
async def test_api_server_that_does_not_answer_holds_a_request_for_a_limited_time():
    server = ApiServer()

    async def hang(*_, **__):
        await asyncio.Event().wait()

    server.get = hang
    assert await server.holder(CI) == "unreadable"
    assert [problem for _, problem in server.problems] == [
        "Secret shop/purgers can't be read: no answer in time; the tokens from before count"
    ]


@in_virtual_time
async def test_few_secrets_are_read_at_a_time_and_not_all_are_kept(monkeypatch):
    monkeypatch.setattr(module, "MOST_KNOWN", 10)
    names = [f"secret-{number}" for number in range(30)]
    server = ApiServer(**{name: document(ci=CI) for name in names})
    assert set(await asyncio.gather(*(server.holder(CI, name) for name in names))) == {"ci"}
    assert server.most_at_once == AT_ONCE
    reads = len(server.reads)
    assert await server.holder(CI, names[-1]) == "ci"
    assert len(server.reads) == reads, "it is known"
    assert await server.holder(CI, names[0]) == "ci"
    assert len(server.reads) == reads + 1
