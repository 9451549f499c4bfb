"""``POST /invalidate``, on the health address of ``vgw chaperone`` and ``vgw run``.

In:   an Invalidation as JSON, with ``Authorization: Bearer TOKEN``.
Out:  200 with the counts, once ghost has carried it out on every Gateway here; or a status with the reason:
      404 without any token in the configuration, 401 without a valid one in the request, 403 out of its scope,
      400 a wrong document, 408 a slow one, 413 a large one, 429 too many at once, 503 not carried out everywhere.

Nothing of a request without a valid token is read but its head. Repeating an invalidation does no harm, so a client
may repeat all that is answered with 408, 429 or 503.

Of several Gateways all are asked first whether they can carry it out: one that can't keeps the others from it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Protocol, TypeVar

import msgspec
from aiohttp import web

from varnish_gateway import errors
from varnish_gateway.dataplane.invalidation.requests import (
    FailureLog,
    again,
    document,
    error,
    read_body,
    unauthorised,
)
from varnish_gateway.dataplane.invalidation.turns import Turns
from varnish_gateway.ir.inspection import Stored
from varnish_gateway.ir.invalidation import LARGEST, Invalidation, InvalidationResult, read_invalidation
from varnish_gateway.ir.tokens import Token, out_of_scope, within_scope
from varnish_gateway.translate.conditions import listed

T = TypeVar("T")


class Cache(Protocol):
    """The cache of one Gateway."""

    @property
    def may_hold_objects(self) -> bool: ...

    async def invalidate(self, invalidation: Invalidation, client: str) -> tuple[int, ...]: ...

    async def check(self, invalidation: Invalidation) -> None: ...

    async def inspect(self, invalidation: Invalidation) -> Stored: ...


class Tokens(Protocol):
    """TokenFile, or PodTokens."""

    @property
    def setting(self) -> str: ...

    def has_any(self) -> bool: ...

    def holder(self, authorization: str | None) -> Token | None: ...


class TokenPage:
    """Lets requests with a token in, some at a time, and reads their bodies; a subclass answers them.

    ``caches`` returns the Gateways here, by name; a single one may have the name "".
    """

    def __init__(self, caches: Callable[[], Mapping[str, Cache]], tokens: Tokens) -> None:
        self._caches = caches
        self._tokens = tokens
        self._turns = Turns()
        self._unauthorised = FailureLog()

    async def answer(self, request: web.Request) -> web.Response:
        if not self._tokens.has_any():
            return error(404, f"this gateway has no tokens; {self._tokens.setting} names a file of them")
        token = self._tokens.holder(request.headers.get("Authorization"))
        if token is None:
            self._unauthorised.add(request.remote or "unknown")
            return unauthorised()
        if self._turns.is_full(token.name):
            return again(429, "too many requests at once; name several targets in one, or repeat it later")
        async with self._turns.turn(token.name):
            return await self._authorised(request, token)

    async def _authorised(self, request: web.Request, token: Token) -> web.Response:
        body = await read_body(request, LARGEST)
        if isinstance(body, web.Response):
            return body
        async with self._turns.carried_out:
            try:
                return await self._answer(body, token)
            except errors.BadDocument as fault:
                return error(400, str(fault))

    async def _answer(self, body: bytes, token: Token) -> web.Response:
        """Return the response; raise BadDocument where the request is wrong."""
        raise NotImplementedError

    def _holding(self) -> dict[str, Cache]:
        """Return the Gateways that may hold objects. One whose varnishd never served has none."""
        return {name: cache for name, cache in self._caches().items() if cache.may_hold_objects}


class InvalidatePage(TokenPage):
    """Answers with sums over Gateways, or with what went wrong in some of them."""

    async def _answer(self, body: bytes, token: Token) -> web.Response:
        invalidation = read_invalidation(body)
        if (reason := out_of_scope(invalidation, token)) is not None:
            return error(403, reason)
        caches = self._holding()
        if not caches:
            return again(503, "varnishd does not run yet")
        restricted = within_scope(invalidation, token)
        if len(msgspec.json.encode(restricted)) > LARGEST:
            return error(413, f"with the token's scope it has more than {LARGEST} bytes; send fewer targets at once")
        if len(caches) > 1:
            checked = await of_each(caches, lambda name: caches[name].check(restricted))
            # One that doesn't answer may not answer for long: it doesn't keep the others from it.
            if faults := {name: fault for name, fault in _faults(checked).items() if not isinstance(fault, OSError)}:
                return _refused(faults, len(caches), "; nothing is carried out")
        results = await of_each(caches, lambda name: caches[name].invalidate(restricted, token.name))
        counts = [each for each in results.values() if not isinstance(each, BaseException)]
        if not (faults := _faults(results)):
            objects = tuple(map(sum, zip(*counts, strict=True)))
            return document(200, msgspec.json.encode(InvalidationResult(objects)))
        done = sorted(results.keys() - faults.keys())
        also = f"; carried out by {listed(done, ', ')}" if done else ""
        return _refused(faults, len(caches), also, is_partial=bool(done))


async def of_each(names: Iterable[str], ask: Callable[[str], Awaitable[T]]) -> dict[str, T | BaseException]:
    """Ask every Gateway; return its answer, or why there is none. A bug is raised."""
    results = await asyncio.gather(*map(ask, names), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, OSError | errors.BadDocument):
            raise result
    return dict(zip(names, results, strict=True))


def _faults(results: Mapping[str, object]) -> dict[str, BaseException]:
    return {name: result for name, result in sorted(results.items()) if isinstance(result, BaseException)}


def _refused(faults: Mapping[str, BaseException], asked: int, rest: str, *, is_partial: bool = False) -> web.Response:
    """Say what went wrong in which of the Gateways that were asked, and what happened to the ``rest``."""
    bad = {name: fault for name, fault in faults.items() if isinstance(fault, errors.BadDocument)}
    if not bad or is_partial:
        return again(503, f"{_reasons(faults)}{rest}; repeat the invalidation")
    is_everywhere = len(bad) == asked and len(set(map(str, bad.values()))) == 1
    reason = str(next(iter(bad.values()))) if is_everywhere else _reasons(bad)
    return error(400, f"{reason}{rest}")


def _reasons(faults: Mapping[str, BaseException]) -> str:
    return listed([f"Gateway {name}: {fault}" if name else str(fault) for name, fault in faults.items()])
