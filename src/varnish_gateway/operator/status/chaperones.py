"""Ask the chaperones of gateway pods what they serve.

In:   the ready pods of a Gateway.
Out:  each chaperone's answer to /ready, or why there is none.

A user who may create pods in a namespace may create one that looks like a gateway's. So the
operator follows no redirect, bounds the length of an answer, and accepts nothing but a report.
"""

import asyncio
from collections.abc import Iterable
from typing import Self

import aiohttp
import msgspec

from varnish_gateway.operator.observe.pods import GatewayPod
from varnish_gateway.operator.status.readiness import PodReport

AT_ONCE = 100
ANSWER_SECONDS = 2.0
LONGEST_ANSWER = 1 << 20

_report = msgspec.json.Decoder(PodReport)


class Chaperones:
    """Asks at most AT_ONCE chaperones at a time; an async context manager."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._at_once = asyncio.Semaphore(AT_ONCE)

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
        host = f"[{pod.address}]" if ":" in pod.address else pod.address
        try:
            async with self._session.get(f"http://{host}:{self._port}/ready", allow_redirects=False) as response:
                return _report.decode(await _read(response))
        except TimeoutError:
            return f"no answer within {ANSWER_SECONDS:g} s"
        except (aiohttp.ClientError, OSError, ValueError, RecursionError) as error:
            return f"no answer: {error}"


async def _read(response: aiohttp.ClientResponse) -> bytes:
    text = b""
    async for chunk in response.content.iter_any():
        text += chunk
        if len(text) > LONGEST_ANSWER:
            raise aiohttp.ClientPayloadError(f"the answer has more than {LONGEST_ANSWER} bytes")
    return text
