"""``POST /invalidate``, on the health address of ``vgw chaperone`` and ``vgw run``.

In:   an Invalidation as JSON, with ``Authorization: Bearer TOKEN``.
Out:  200 with the counts, once ghost has carried it out on every Gateway here; or a status with the reason:
      404 without any token in the configuration, 401 without a valid one in the request, 403 out of its scope,
      400 a wrong document, 408 a slow one, 413 a large one, 429 too many at once, 503 not carried out everywhere.

Nothing of a request without a valid token is read but its head. Repeating an invalidation does no harm, so a client
may repeat all that is answered with 408, 429 or 503.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

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
from varnish_gateway.ir.invalidation import LARGEST, Invalidation, InvalidationResult, read_invalidation
from varnish_gateway.ir.tokens import Token, out_of_scope, within_scope


class Cache(Protocol):
    """The cache of one Gateway."""

    @property
    def may_hold_objects(self) -> bool: ...

    @property
    def routes(self) -> frozenset[str]: ...

    async def invalidate(self, invalidation: Invalidation, client: str) -> tuple[int, ...]: ...


class Tokens(Protocol):
    """TokenFile, or PodTokens."""

    @property
    def setting(self) -> str: ...

    def has_any(self) -> bool: ...

    def holder(self, authorization: str | None) -> Token | None: ...


class InvalidatePage:
    """``caches`` returns the Gateways here, by name; a single one may have the name ""."""

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
            return again(429, "too many invalidations at once; name several targets in one, or repeat it later")
        async with self._turns.turn(token.name):
            return await self._authorised(request, token)

    async def _authorised(self, request: web.Request, token: Token) -> web.Response:
        body = await read_body(request, LARGEST)
        if isinstance(body, web.Response):
            return body
        async with self._turns.carried_out:
            try:
                invalidation = read_invalidation(body)
                if (reason := out_of_scope(invalidation, token)) is not None:
                    return error(403, reason)
                return await self._carry_out(invalidation, token)
            except errors.BadDocument as fault:
                return error(400, str(fault))

    async def _carry_out(self, invalidation: Invalidation, token: Token) -> web.Response:
        """Ask every Gateway that may hold objects. One whose varnishd never served has none."""
        caches = {name: cache for name, cache in self._caches().items() if cache.may_hold_objects}
        if not caches:
            return again(503, "varnishd does not run yet")
        restricted = {name: within_scope(invalidation, token, cache.routes) for name, cache in caches.items()}
        if any(len(msgspec.json.encode(each)) > LARGEST for each in restricted.values()):
            return error(413, f"with the token's routes it has more than {LARGEST} bytes; send fewer targets at once")
        asked = (cache.invalidate(restricted[name], token.name) for name, cache in caches.items())
        results = await asyncio.gather(*asked, return_exceptions=True)
        return _combined(dict(zip(caches, results, strict=True)))


def _combined(results: Mapping[str, tuple[int, ...] | BaseException]) -> web.Response:
    """Answer with sums over Gateways, or with what went wrong in one of them."""
    counts: list[tuple[int, ...]] = []
    for name, result in results.items():
        if isinstance(result, OSError):
            where = f"Gateway {name}: " if name else ""
            return again(503, f"{where}{result}; repeat the invalidation")
        if isinstance(result, BaseException):
            raise result
        counts.append(result)
    objects = tuple(map(sum, zip(*counts, strict=True)))
    return document(200, msgspec.json.encode(InvalidationResult(objects)))
