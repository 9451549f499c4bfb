"""``POST /gateways/NAMESPACE/NAME/invalidate``: the one address of a Gateway, for all of its pods.

In:   an Invalidation as JSON, with ``Authorization: Bearer TOKEN``, a token of the Gateway's Secret.
Out:  200 with the counts once every pod is accounted for; or a status with the reason. 503 and 504 say what is known:
      503 where the operator doesn't see all pods, 504 where some did not confirm in time.

Requests have limits of their own, for each token, for each namespace and in all, outside the writer pool, and a
namespace has few a second: a flood of them delays no write for long. Nothing of a request without a valid token is
read but its head.
"""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Protocol
from weakref import WeakValueDictionary

import msgspec
from aiohttp import web
from msgspec import Struct

from varnish_gateway import errors
from varnish_gateway.api import Key
from varnish_gateway.api.gateway_networking import INVALIDATION_TOKENS
from varnish_gateway.dataplane.invalidation.requests import (
    FailureLog,
    again,
    document,
    error,
    read_body,
    unauthorised,
)
from varnish_gateway.dataplane.invalidation.token_set import TokenSet, presented
from varnish_gateway.dataplane.invalidation.turns import Turns
from varnish_gateway.ir import PodResult
from varnish_gateway.ir.invalidation import LARGEST, Invalidation, read_invalidation
from varnish_gateway.ir.tokens import Token, out_of_scope, within_scope
from varnish_gateway.operator.address.broadcast import Broadcast
from varnish_gateway.operator.address.gateways import AddressedGateway
from varnish_gateway.operator.address.places import Places
from varnish_gateway.operator.observe.pods import GatewayPod
from varnish_gateway.operator.status.answers import InvalidationAnswer
from varnish_gateway.translate.conditions import listed

PATH = "/gateways/{namespace}/{name}/invalidate"
LARGEST_BODY = 1 << 20
"""Less than a pod takes: an operator serves all Gateways. 10,000 tags of 100 bytes fit."""
CONFIRM_SECONDS = 25.0
"""For all pods together. One pod that was slow to confirm is no reason to hold a client for longer."""
WAIT_SECONDS = 10.0
"""For a turn, then 429."""
OF_TOKEN, OF_TOKEN_AT_ONCE = 32, 2
OF_NAMESPACE_AT_ONCE = 4
AT_ONCE = 32
TARGETS = 1_000
"""Each of them may be any number of tags."""
PODS_AT_ONCE = 64
"""Pods that are asked at a time, in all; each request in flight may hold a copy of its document."""
PODS_OF_NAMESPACE_AT_ONCE = 16

log = logging.getLogger(__name__)


class Gateways(Protocol):
    """AddressedGateways."""

    def find(self, namespace: str, name: str) -> AddressedGateway | None: ...


class GatewayTokens(Protocol):
    """SecretTokens."""

    async def of(self, gateway: Key, name: str) -> TokenSet | None: ...


class Pods(Protocol):
    """Chaperones."""

    async def invalidate_one(self, pod: GatewayPod, content: bytes, token: str) -> InvalidationAnswer: ...


class PodCount(Struct, omit_defaults=True):
    """``result`` is confirmed, empty, gone, rejected or unanswered."""

    name: str
    result: str
    objects: int | None = None
    message: str = ""


class Answer(Struct, omit_defaults=True):
    """``objects`` are the objects that each target hit, in all pods together."""

    objects: tuple[int, ...]
    pods: tuple[PodCount, ...]
    error: str = ""


class AddressPage:
    """``problem`` says why there may be other pods than those that the operator sees, None where there are none.

    ``answers`` counts what pods have answered, by result; ``statuses`` counts responses.
    """

    def __init__(
        self, gateways: Gateways, tokens: GatewayTokens, pods: Pods, problem: Callable[[], str | None]
    ) -> None:
        self._gateways = gateways
        self._tokens = tokens
        self._pods = pods
        self._problem = problem
        self._of_tokens = Turns(OF_TOKEN, OF_TOKEN_AT_ONCE)
        self._of_namespaces = Turns(at_once=OF_NAMESPACE_AT_ONCE, carried_out=AT_ONCE)
        self._places = Places()
        self._pods_at_once = asyncio.Semaphore(PODS_AT_ONCE)
        self._of_namespace: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._unauthorised = FailureLog()
        self.answers: Counter[str] = Counter()
        self.statuses: Counter[int] = Counter()

    async def answer(self, request: web.Request) -> web.Response:
        response = await self._answer(request)
        self.statuses[response.status] += 1
        return response

    async def _answer(self, request: web.Request) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        gateway = self._gateways.find(namespace, name)
        if gateway is None:
            annotation = f"the annotation {INVALIDATION_TOKENS} of a Gateway names a Secret with tokens"
            return error(404, f"the operator has no Gateway {namespace}/{name} with tokens; {annotation}")
        authorization = request.headers.get("Authorization")
        if presented(authorization) is None:
            return self._rejected(request)
        tokens = await self._tokens.of(gateway.key, gateway.secret)
        if tokens is None:
            return again(503, "the operator can't read the tokens of this Gateway at the moment")
        token = tokens.holder(authorization)
        return self._rejected(request) if token is None else await self._in_turn(request, gateway, token)

    def _rejected(self, request: web.Request) -> web.Response:
        self._unauthorised.add(request.remote or "unknown")
        return unauthorised()

    async def _in_turn(self, request: web.Request, gateway: AddressedGateway, token: Token) -> web.Response:
        client, namespace = f"{gateway.key} {token.name}", gateway.key.namespace
        too_many = again(429, "too many invalidations at once; name several targets in one, or repeat it later")
        if self._of_tokens.is_full(client) or not self._places.admits(namespace, time.monotonic()):
            return too_many
        async with contextlib.AsyncExitStack() as turns:
            turns.enter_context(self._places.held(namespace))
            try:
                async with asyncio.timeout(WAIT_SECONDS):
                    await turns.enter_async_context(self._of_tokens.turn(client))
                    await turns.enter_async_context(self._of_namespaces.turn(namespace))
                    await turns.enter_async_context(self._of_namespaces.carried_out)
            except TimeoutError:
                return too_many
            return await self._authorised(request, gateway, token)

    async def _authorised(self, request: web.Request, gateway: AddressedGateway, token: Token) -> web.Response:
        body = await read_body(request, LARGEST_BODY)
        if isinstance(body, web.Response):
            return body
        invalidation = _read(body)
        if isinstance(invalidation, web.Response):
            return invalidation
        if (reason := out_of_scope(invalidation, token)) is not None:
            return error(403, reason)
        invalidation = within_scope(invalidation, token)
        content = msgspec.json.encode(invalidation)
        if len(content) > LARGEST:
            return error(413, f"with the token's scope it has more than {LARGEST} bytes; send fewer targets at once")
        if not gateway.token:
            return again(503, "the Gateway is being set up; its pods don't know the operator yet")
        return await self._carry_out(gateway, token, invalidation, content)

    async def _carry_out(
        self, gateway: AddressedGateway, token: Token, invalidation: Invalidation, content: bytes
    ) -> web.Response:
        at_once = self._of_namespace.setdefault(gateway.key.namespace, asyncio.Semaphore(PODS_OF_NAMESPACE_AT_ONCE))

        async def ask(pod: GatewayPod) -> InvalidationAnswer:
            async with at_once, self._pods_at_once:
                answer = await self._pods.invalidate_one(pod, content, gateway.token)
            self.answers[answer.outcome] += 1
            return answer

        broadcast = Broadcast(gateway.pods, ask, len(invalidation.targets))
        await broadcast.run(CONFIRM_SECONDS)
        log.info(
            "%s: %s invalidation by %s: %s, %d targets",
            *(gateway.key, invalidation.mode, token.name, broadcast.accounts, len(invalidation.targets)),
        )
        return _response(broadcast, self._problem())


def _read(body: bytes) -> Invalidation | web.Response:
    try:
        invalidation = read_invalidation(body)
    except errors.BadDocument as fault:
        return error(400, str(fault))
    if len(invalidation.targets) > TARGETS:
        return error(413, f"an invalidation has at most {TARGETS:,} targets here; name many tags in one of them")
    return invalidation


def _response(broadcast: Broadcast, problem: str | None) -> web.Response:
    """Answer with what is known of all pods, and whether that is all there is to know."""
    accounts, waiting = broadcast.accounts, [pod.name for pod in broadcast.open]
    results = sorted(accounts.results.values(), key=lambda one: one.pod_name)
    answer = Answer(tuple(broadcast.objects), tuple(map(_pod_count, results)))
    if accounts.rejection is not None:
        return _document(400, answer, accounts.rejection)
    if waiting:
        reason = f"not confirmed within {CONFIRM_SECONDS:g} s by {listed(waiting, ', ')}; {accounts}"
        return _document(504, answer, f"{reason}; repeat the invalidation")
    if problem is not None:
        reason = f"the operator can't see at the moment whether there are more pods ({problem}); {accounts}"
        return _document(503, answer, f"{reason}; repeat the invalidation")
    return _document(200, answer)


def _pod_count(one: PodResult) -> PodCount:
    if one.reason == "Confirmed":
        return PodCount(one.pod_name, "confirmed", one.objects)
    return PodCount(one.pod_name, one.reason.lower(), message=one.message)


def _document(status: int, answer: Answer, reason: str = "") -> web.Response:
    answer.error = reason
    headers = {"Retry-After": "1"} if status in (503, 504) else None
    return document(status, msgspec.json.encode(answer), headers)
