"""What pages for invalidations have in common: those of vgw run, vgw chaperone and vgw operator.

In:   a request.
Out:  its body within bounds of size and time; responses in one form; few lines in the log about missing tokens.
"""

import asyncio
import logging
import time
from collections.abc import Mapping

import msgspec
from aiohttp import web
from aiohttp.http import HttpProcessingError

BODY_SECONDS = 10.0
RETRY_SECONDS = "1"
LOG_SECONDS = 60.0
"""Requests without a valid token are logged once in this time, with their number."""

log = logging.getLogger(__name__)


async def read_body(request: web.Request, largest: int) -> bytes | web.Response:
    """Return the body, or the response to one that is too large or too slow."""
    too_large = error(413, f"an invalidation has at most {largest} bytes here; send fewer targets at once")
    if (request.content_length or 0) > largest:
        return too_large
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.content.iter_any():
                body += piece
                if len(body) > largest:
                    return too_large
    except (ConnectionError, web.RequestPayloadError, HttpProcessingError):
        return error(400, "the body is malformed or broke off")
    except TimeoutError:
        return again(408, f"the body did not arrive within {BODY_SECONDS:g} s")
    return bytes(body)


def unauthorised() -> web.Response:
    """Answer to a request without a valid token."""
    reason = "send Authorization: Bearer TOKEN with a token of this gateway"
    return error(401, reason, {"WWW-Authenticate": 'Bearer realm="varnish-gateway"'})


def error(status: int, reason: str, headers: Mapping[str, str] | None = None) -> web.Response:
    return document(status, msgspec.json.encode({"error": reason}), headers)


def again(status: int, reason: str) -> web.Response:
    """Answer that the client may repeat the request."""
    return error(status, reason, {"Retry-After": RETRY_SECONDS})


def document(status: int, body: bytes, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(status=status, body=body, content_type="application/json", headers=headers or {})


class FailureLog:
    """Logs requests without a valid token, but not each: an attacker must not fill a disk."""

    def __init__(self) -> None:
        self._count = 0
        self._next = 0.0

    def add(self, remote: str) -> None:
        self._count += 1
        if (now := time.monotonic()) < self._next:
            return
        log.warning("%d requests without a valid token, the last from %s", self._count, remote)
        self._count, self._next = 0, now + LOG_SECONDS
