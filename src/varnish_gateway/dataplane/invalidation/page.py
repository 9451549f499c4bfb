"""``POST /invalidate``, on the health address of ``vgw chaperone`` and ``vgw run``.

In:   an Invalidation as JSON, with ``Authorization: Bearer TOKEN``.
Out:  200 with the counts, once ghost has carried it out on every Gateway here; or a status with the reason:
      404 without any token in the configuration, 401 without a valid one in the request, 403 out of its scope,
      400 a wrong document, 408 a slow one, 413 a large one, 429 too many at once, 503 not carried out everywhere.

Nothing of a request without a valid token is read but its head. Repeating an invalidation does no harm, so a client
may repeat all that is answered with 408, 429 or 503.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec
from aiohttp import web
from aiohttp.http import HttpProcessingError

from varnish_gateway import errors
from varnish_gateway.dataplane.invalidation.turns import Turns
from varnish_gateway.ir.invalidation import LARGEST, Invalidation, InvalidationResult, read_invalidation
from varnish_gateway.ir.tokens import Token, out_of_scope, within_scope

BODY_SECONDS = 10.0
RETRY_SECONDS = "1"
LOG_SECONDS = 60.0
"""Requests without a valid token are logged once in this time, with their number."""

log = logging.getLogger(__name__)


class Cache(Protocol):
    """The cache of one Gateway."""

    @property
    def may_hold_objects(self) -> bool: ...

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
        self._unauthorised = _FailureLog()

    async def answer(self, request: web.Request) -> web.Response:
        if not self._tokens.has_any():
            return _error(404, f"this gateway has no tokens; {self._tokens.setting} names a file of them")
        token = self._tokens.holder(request.headers.get("Authorization"))
        if token is None:
            self._unauthorised.add(request.remote or "unknown")
            reason = "send Authorization: Bearer TOKEN with a token of this gateway"
            return _error(401, reason, {"WWW-Authenticate": 'Bearer realm="varnish-gateway"'})
        if self._turns.is_full(token.name):
            return _again(429, "too many invalidations at once; name several targets in one, or repeat it later")
        async with self._turns.turn(token.name):
            return await self._authorised(request, token)

    async def _authorised(self, request: web.Request, token: Token) -> web.Response:
        body = await _body(request)
        if isinstance(body, web.Response):
            return body
        async with self._turns.carried_out:
            try:
                invalidation = read_invalidation(body)
                if (reason := out_of_scope(invalidation, token)) is not None:
                    return _error(403, reason)
                return await self._carry_out(invalidation, token)
            except errors.BadDocument as error:
                return _error(400, str(error))

    async def _carry_out(self, invalidation: Invalidation, token: Token) -> web.Response:
        """Ask every Gateway that may hold objects. One whose varnishd never served has none."""
        caches = {name: cache for name, cache in self._caches().items() if cache.may_hold_objects}
        if not caches:
            return _again(503, "varnishd does not run yet")
        restricted = within_scope(invalidation, token)
        if len(msgspec.json.encode(restricted)) > LARGEST:
            return _error(413, f"with the token's scope it has more than {LARGEST} bytes; send fewer targets at once")
        asked = (cache.invalidate(restricted, token.name) for cache in caches.values())
        results = await asyncio.gather(*asked, return_exceptions=True)
        return _combined(dict(zip(caches, results, strict=True)))


def _combined(results: Mapping[str, tuple[int, ...] | BaseException]) -> web.Response:
    """Answer with sums over Gateways, or with what went wrong in one of them."""
    counts: list[tuple[int, ...]] = []
    for name, result in results.items():
        if isinstance(result, OSError):
            where = f"Gateway {name}: " if name else ""
            return _again(503, f"{where}{result}; repeat the invalidation")
        if isinstance(result, BaseException):
            raise result
        counts.append(result)
    objects = tuple(map(sum, zip(*counts, strict=True)))
    return _json(200, msgspec.json.encode(InvalidationResult(objects)), {})


async def _body(request: web.Request) -> bytes | web.Response:
    """Return the body, or the response to one that is too large or too slow."""
    too_large = _error(413, f"an invalidation has at most {LARGEST} bytes; send fewer targets at once")
    if (request.content_length or 0) > LARGEST:
        return too_large
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.content.iter_any():
                body += piece
                if len(body) > LARGEST:
                    return too_large
    except (ConnectionError, web.RequestPayloadError, HttpProcessingError):
        return _error(400, "the body is malformed or broke off")
    except TimeoutError:
        return _again(408, f"the body did not arrive within {BODY_SECONDS:g} s")
    return bytes(body)


class _FailureLog:
    """Logs requests without a valid token, but not each: an attacker must not fill a disk."""

    def __init__(self) -> None:
        self._count = 0
        self._next = 0.0

    def add(self, remote: str) -> None:
        self._count += 1
        if (now := time.monotonic()) < self._next:
            return
        log.warning("%d invalidations without a valid token, the last from %s", self._count, remote)
        self._count, self._next = 0, now + LOG_SECONDS


def _error(status: int, reason: str, headers: Mapping[str, str] | None = None) -> web.Response:
    return _json(status, msgspec.json.encode({"error": reason}), headers or {})


def _again(status: int, reason: str) -> web.Response:
    """Answer that the client may repeat the request."""
    return _error(status, reason, {"Retry-After": RETRY_SECONDS})


def _json(status: int, body: bytes, headers: Mapping[str, Any]) -> web.Response:
    return web.Response(status=status, body=body, content_type="application/json", headers=headers)
