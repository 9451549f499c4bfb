"""What the pods of a Gateway serve, as their chaperones tell.

In:   the ready pods of a Gateway.
Out:  what each one's chaperone answers to /ready.

Whoever may make pods in a namespace may make one that looks like a gateway's. So no answer sends
us elsewhere, none is longer than it has to be, and whatever bytes come, they are a report or none.
"""

import asyncio
from collections.abc import Iterable
from typing import Self

import aiohttp
import msgspec
from msgspec import Struct, field

from varnish_gateway.api import Key
from varnish_gateway.emit import names

AT_ONCE = 100
ANSWER_SECONDS = 2.0
LONGEST_ANSWER = 1 << 20


class _Metadata(Struct, rename="camel"):
    name: str
    namespace: str
    deletion_timestamp: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)


class _Condition(Struct):
    type: str
    status: str


class _Status(Struct, rename="camel"):
    pod_ip: str = field(default="", name="podIP")
    conditions: tuple[_Condition, ...] = ()


class _Pod(Struct):
    metadata: _Metadata
    status: _Status = field(default_factory=_Status)


class Pod(Struct, frozen=True):
    """One pod of a Gateway. ``is_ready``: it takes traffic, by the word of Kubernetes."""

    name: str
    gateway: Key
    address: str
    is_ready: bool


class Report(Struct, frozen=True, rename="camel"):
    """What a chaperone says about itself; the fields that we read of it."""

    vcl: str | None = None
    tls: str | None = None
    generation: str | None = None
    sockets: tuple[str, ...] = ()
    up_to_date: bool = False
    problems: tuple[str, ...] = ()


_pod = msgspec.json.Decoder(_Pod)
_report = msgspec.json.Decoder(Report)


def decode_pod(text: bytes) -> Pod:
    pod = _pod.decode(text)
    metadata = pod.metadata
    is_ready = any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)
    return Pod(
        name=metadata.name,
        gateway=Key("Gateway", metadata.namespace, metadata.annotations.get(names.GATEWAY_ANNOTATION, "")),
        address=pod.status.pod_ip,
        is_ready=is_ready and metadata.deletion_timestamp is None,
    )


class Chaperones:
    """Asks chaperones, so many at once; an async context manager."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._at_once = asyncio.Semaphore(AT_ONCE)

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
        connector = aiohttp.TCPConnector(limit=0)  # or the wait for a connection would be a part of a pod's time
        self._session = aiohttp.ClientSession(
            connector=connector, timeout=timeout, trust_env=False, auto_decompress=False
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def ask(self, pods: Iterable[Pod]) -> dict[str, Report | str]:
        """Return by pod what its chaperone said, or why it could not be asked."""
        asked = list(pods)
        answers = await asyncio.gather(*(self._ask_in_turn(pod) for pod in asked))
        return {pod.name: answer for pod, answer in zip(asked, answers, strict=True)}

    async def _ask_in_turn(self, pod: Pod) -> Report | str:
        async with self._at_once:
            return await self._ask_one(pod)

    async def _ask_one(self, pod: Pod) -> Report | str:
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
            raise aiohttp.ClientPayloadError(f"it has more than {LONGEST_ANSWER} bytes")
    return text
