"""Explain what the router does with a request.

In:   a translation, and a request: method, URL, headers.
Out:  a ``SocketExplanation`` for each socket that the URL may mean, or ``NotListening``: with the endpoints
      that the files give each pool, and what the cache does.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import msgspec

from varnish_gateway import errors
from varnish_gateway._ghost import Router
from varnish_gateway.api import EndpointSlice, Key, Object
from varnish_gateway.dataplane.ghost.files import Pools
from varnish_gateway.dataplane.ghost.join import Join
from varnish_gateway.ir import wire
from varnish_gateway.standalone.cache_explanation import (
    CacheExplanation,
    CacheQuestion,
    OriginResponse,
    OverBudget,
    explain_caching,
)
from varnish_gateway.standalone.translation import TranslatedGateway, Translation

_DEFAULT_PORTS = {"http": 80, "https": 443}
NO_ENDPOINTS = 503


class ConsideredRule(msgspec.Struct, kw_only=True, rename="camel"):
    """A match of a rule that the router considered."""

    hostname: str
    route: str
    identity: str
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
    authority: str
    target: str
    listener: wire.Listener | None
    winner: Winner | None
    preflight: bool
    over_budget: OverBudget | None
    steps_left: int
    runners_up: list[RunnerUp]


@dataclass(frozen=True)
class ExplainedSocket:
    """The socket that receives the request."""

    gateway: Key
    name: str
    port: int
    scheme: str


@dataclass(frozen=True)
class SocketExplanation:
    socket: ExplainedSocket
    explanation: Explanation
    pools: Pools
    cache: CacheExplanation | None  # of a request that a backend may answer

    @property
    def over_budget(self) -> OverBudget | None:
        """The error for a request that rules and their cache policy take too many steps for."""
        asked = None if self.cache is None else self.cache.answer
        return self.explanation.over_budget or (None if asked is None else asked.over_budget)

    @property
    def own_error(self) -> int | None:
        """The 5xx that the gateway itself answers with, to all requests like this one or to a share of them."""
        winner = self.explanation.winner
        if winner is None or self.explanation.preflight or winner.location is not None:
            return None
        statuses = [winner.rule.status, *(self.status_of(share) for share in winner.backends if share.probability)]
        return next((status for status in statuses if status is not None and status >= 500), None)

    def status_of(self, share: Share) -> int | None:
        """Return the status that stands for a backend: that of the share, or 503 for a pool without endpoints."""
        if share.pool is None:
            return share.status
        is_known = self.pools.get(share.pool) or self.external(share) is not None
        return None if is_known else NO_ENDPOINTS

    def external(self, share: Share) -> str | None:
        """Return the host of an ExternalName Service, which is resolved when the gateway runs."""
        winner = self.explanation.winner
        backends = winner.rule.backends if winner is not None else ()
        return next((each.external for each in backends if f"{each.service}:{each.port}" == share.pool), None)


class NotListening(errors.InvalidInput):
    """Nothing listens where the URL points to."""


def explain(
    translation: Translation,
    method: str,
    url: str,
    headers: Sequence[tuple[str, str]],
    response: OriginResponse | None = None,
) -> Iterator[SocketExplanation]:
    """Yield what happens on each socket that the URL may mean, and with the response of an origin."""
    for socket in _chosen(url, _sockets(translation)):
        gateway = translation.gateways[socket.gateway]
        router = _router(gateway)
        try:
            answer = router.explain(socket.name, method, url, headers)
        except ValueError as error:
            raise errors.InvalidInput(f"the request is answered with 400: {error}") from None
        pools = _pools(gateway, translation.changes.objects)
        found = msgspec.json.decode(answer, type=Explanation)
        question = _cache_question(found, method, headers)
        cache = None if question is None else explain_caching(question, response, translation.changes.objects)
        yield SocketExplanation(socket, found, pools, cache)


def _cache_question(found: Explanation, method: str, headers: Sequence[tuple[str, str]]) -> CacheQuestion | None:
    """Return what to ask about the cache; None where no backend answers the request."""
    winner = found.winner
    if winner is None or found.listener is None or found.preflight or not winner.backends:
        return None
    return CacheQuestion(
        method=method,
        headers=headers,
        authority=found.authority,
        path=found.target,
        identity=winner.identity,
        rule=winner.rule,
        listener=found.listener,
        steps=found.steps_left,
    )


def _pools(gateway: TranslatedGateway, objects: Mapping[Key, Object | None]) -> Pools:
    """Return the endpoints of every pool, joined as the data plane does it."""
    slices = {key: obj for key, obj in objects.items() if isinstance(obj, EndpointSlice)}
    joined = Join().update(routing=dict(enumerate(gateway.shards)), slices=slices)
    return {name: pool for name, pool in joined.items() if pool is not None}


def _router(gateway: TranslatedGateway) -> Any:  # noqa: ANN401  # typed in _ghost.pyi
    router = Router()
    for shard in gateway.shards:
        router.update(shard)
    return router


def _sockets(translation: Translation) -> list[ExplainedSocket]:
    found = {
        ExplainedSocket(key, listener.socket, listener.port, listener.scheme): None
        for key, gateway in sorted(translation.gateways.items())
        for listener in gateway.listeners
    }
    return sorted(found, key=lambda socket: (socket.port, socket.name))


def _chosen(url: str, sockets: list[ExplainedSocket]) -> list[ExplainedSocket]:
    """Choose by scheme and port of the URL; without a port by the scheme's, or else all sockets of that scheme."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise errors.BadSettings(f"{url}: {error}") from None
    if not sockets:
        raise NotListening("no listener of any Gateway is served")
    served = ", ".join(f"{socket.scheme} on {socket.port} ({socket.gateway})" for socket in sockets)
    chosen = port or _DEFAULT_PORTS.get(parts.scheme)
    if port is not None and all(socket.port != port for socket in sockets):
        raise NotListening(f"nothing listens on port {port}: the connection is refused; served: {served}")
    speaking = [socket for socket in sockets if parts.scheme in ("", socket.scheme)]
    listening = [socket for socket in speaking if socket.port == chosen]
    if not speaking or (port is not None and not listening):
        where = f"port {port} does not serve" if port is not None else "no port serves"
        raise NotListening(f"{where} {parts.scheme}: the connection fails; served: {served}")
    return listening or speaking
