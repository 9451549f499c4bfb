"""Explain what the router does with a request.

In:   a translation, and a request: method, URL, headers.
Out:  a ``SocketExplanation`` for each socket that the URL may mean, or ``NotListening``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import msgspec

from varnish_gateway import errors
from varnish_gateway._ghost import Router
from varnish_gateway.api import Key
from varnish_gateway.ir import wire
from varnish_gateway.standalone.translation import TranslatedGateway, Translation

_DEFAULT_PORTS = {"http": 80, "https": 443}


class ConsideredRule(msgspec.Struct, kw_only=True, rename="camel"):
    """A match of a rule that the router considered."""

    hostname: str
    route: str
    rule_index: int
    match_index: int
    match: wire.Match


class RunnerUp(ConsideredRule, kw_only=True, rename="camel"):
    reason: str


class Share(msgspec.Struct, kw_only=True):
    """Where a part of the requests goes: a pool, or a plain status."""

    pool: str | None
    status: int | None
    weight: int
    probability: float


class Winner(ConsideredRule, kw_only=True, rename="camel"):
    rule: wire.Rule
    backends: list[Share]
    location: str | None
    rewritten: str | None


class Explanation(msgspec.Struct, kw_only=True, rename="camel"):
    """The answer of the router; see _ghost.pyi."""

    host: str
    target: str
    listener: wire.Listener | None
    winner: Winner | None
    preflight: bool
    runners_up: list[RunnerUp]


@dataclass(frozen=True)
class ExplainedSocket:
    """The socket that receives the request."""

    gateway: Key
    name: str
    port: int


@dataclass(frozen=True)
class SocketExplanation:
    socket: ExplainedSocket
    explanation: Explanation


class NotListening(errors.InvalidInput):
    """Nothing listens where the URL points to."""


def explain(
    translation: Translation, method: str, url: str, headers: Sequence[tuple[str, str]]
) -> Iterator[SocketExplanation]:
    """Yield what happens on each socket that the URL may mean."""
    for socket in _chosen(url, _sockets(translation)):
        router = _router(translation.gateways[socket.gateway])
        try:
            answer = router.explain(socket.name, method, url, headers)
        except ValueError as error:
            raise errors.InvalidInput(f"the request is answered with 400: {error}") from None
        yield SocketExplanation(socket, msgspec.json.decode(answer, type=Explanation))


def _router(gateway: TranslatedGateway) -> Any:  # noqa: ANN401  # typed in _ghost.pyi
    router = Router()
    for shard in gateway.shards:
        router.update(shard)
    return router


def _sockets(translation: Translation) -> list[ExplainedSocket]:
    found = {
        ExplainedSocket(key, listener.socket, listener.port): None
        for key, gateway in sorted(translation.gateways.items())
        for listener in gateway.listeners
    }
    return sorted(found, key=lambda socket: (socket.port, socket.name))


def _chosen(url: str, sockets: list[ExplainedSocket]) -> list[ExplainedSocket]:
    """Choose by the URL's port; without one by the scheme's, and if nothing listens there, return every socket."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise errors.BadSettings(f"{url}: {error}") from None
    if not sockets:
        raise NotListening("no listener of any Gateway is served")
    chosen = port or _DEFAULT_PORTS.get(parts.scheme)
    listening = [socket for socket in sockets if socket.port == chosen]
    if port is not None and not listening:
        served = ", ".join(f"{socket.port} ({socket.gateway})" for socket in sockets)
        raise NotListening(f"nothing listens on port {port}: the connection is refused; ports served: {served}")
    return listening or sockets
