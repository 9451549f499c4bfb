"""Ask the chaperones of gateway pods what they serve, and send them invalidations.

In:   pods of a Gateway; the content of an invalidation, and the token of that Gateway.
Out:  each chaperone's answer to /ready or /invalidate, or why there is none.

A user who may create pods in a namespace may create one that looks like a gateway's. So the
operator follows no redirect, bounds the length of an answer, and accepts nothing but a report or counts.
The token that such a pod gets is that of a Secret which its user could mount into it anyway.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Self
from weakref import WeakValueDictionary

import aiohttp
import msgspec
from msgspec import Struct

from varnish_gateway.api import Key
from varnish_gateway.ir.invalidation import InvalidationResult
from varnish_gateway.operator.observe.pods import GatewayPod
from varnish_gateway.operator.status.answers import Answers, InvalidationAnswer
from varnish_gateway.operator.status.readiness import PodReport

AT_ONCE = 100
ANSWER_SECONDS = 2.0
LONGEST_ANSWER = 1 << 20

INVALIDATION_SECONDS = 35.0
"""For one pod: varnishd has 30 s to carry an invalidation out."""
CONNECT_SECONDS = 2.0
PODS_AT_ONCE = 16
"""Pods of one Gateway that carry out its invalidations at a time; silent ones hold up no other Gateway."""
LONGEST_MESSAGE = 300
REJECTIONS = (400, 413)
"""No pod will ever carry these out."""

_report = msgspec.json.Decoder(PodReport)
_counts = msgspec.json.Decoder(InvalidationResult)


class _Fault(Struct):
    error: str = ""


_fault = msgspec.json.Decoder(_Fault)


class Chaperones:
    """Asks at most AT_ONCE chaperones at a time; an async context manager."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._at_once = asyncio.Semaphore(AT_ONCE)
        self._of_gateway: WeakValueDictionary[Key, asyncio.Semaphore] = WeakValueDictionary()

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
        connector = aiohttp.TCPConnector(limit=0)  # waiting for a connection must not count against a pod's deadline
        self._session = aiohttp.ClientSession(
            connector=connector, timeout=timeout, trust_env=False, auto_decompress=False
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def ask(self, pods: Iterable[GatewayPod]) -> dict[str, PodReport | str]:
        """Return the report of each pod by name, or why there is none."""
        asked = list(pods)
        answers = await asyncio.gather(*(self._ask_within_limit(pod) for pod in asked))
        return {pod.name: answer for pod, answer in zip(asked, answers, strict=True)}

    async def _ask_within_limit(self, pod: GatewayPod) -> PodReport | str:
        async with self._at_once:
            return await self._ask_one(pod)

    async def _ask_one(self, pod: GatewayPod) -> PodReport | str:
        try:
            async with self._session.get(self._url(pod, "ready"), allow_redirects=False) as response:
                return _report.decode(await _read(response))
        except TimeoutError:
            return f"no answer within {ANSWER_SECONDS:g} s"
        except (aiohttp.ClientError, OSError, ValueError, RecursionError) as error:
            return f"no answer: {error}"

    # -- invalidations -----------------------------------------------------------------

    async def invalidate(self, pods: Sequence[GatewayPod], content: bytes, token: str) -> Answers:
        """Send an invalidation to pods of one Gateway; return the answer of each by name."""
        if not pods:
            return {}
        gateway = pods[0].gateway
        at_once = self._of_gateway.setdefault(gateway, asyncio.Semaphore(PODS_AT_ONCE))
        answers = await asyncio.gather(*(self._invalidate_within_limit(pod, content, token, at_once) for pod in pods))
        return {pod.name: answer for pod, answer in zip(pods, answers, strict=True)}

    async def _invalidate_within_limit(
        self, pod: GatewayPod, content: bytes, token: str, at_once: asyncio.Semaphore
    ) -> InvalidationAnswer:
        async with at_once:
            return await self.invalidate_one(pod, content, token)

    async def invalidate_one(self, pod: GatewayPod, content: bytes, token: str) -> InvalidationAnswer:
        """Send an invalidation to one pod; the caller limits how many there are at once."""
        try:
            return await self._invalidate(pod, content, token)
        except TimeoutError:
            return InvalidationAnswer(None, "no answer in time")
        except (aiohttp.ClientError, OSError, ValueError, RecursionError) as error:
            return InvalidationAnswer(None, f"no answer: {error}"[:LONGEST_MESSAGE])

    async def _invalidate(self, pod: GatewayPod, content: bytes, token: str) -> InvalidationAnswer:
        async with self._session.post(
            self._url(pod, "invalidate"),
            data=content,
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=INVALIDATION_SECONDS, sock_connect=CONNECT_SECONDS),
        ) as response:
            answer = await _read(response)
            if response.status == 200:
                return InvalidationAnswer(_counts.decode(answer).objects)
            if response.status in (401, 404, 405):
                message = "it does not know the operator's token yet, or is of an earlier version"
                return InvalidationAnswer(None, message)
            message = _fault.decode(answer).error[:LONGEST_MESSAGE] or f"it answered {response.status}"
            return InvalidationAnswer(None, message, is_rejection=response.status in REJECTIONS)

    def _url(self, pod: GatewayPod, page: str) -> str:
        host = f"[{pod.address}]" if ":" in pod.address else pod.address
        return f"http://{host}:{self._port}/{page}"


async def _read(response: aiohttp.ClientResponse) -> bytes:
    text = b""
    async for chunk in response.content.iter_any():
        text += chunk
        if len(text) > LONGEST_ANSWER:
            raise aiohttp.ClientPayloadError(f"the answer has more than {LONGEST_ANSWER} bytes")
    return text
