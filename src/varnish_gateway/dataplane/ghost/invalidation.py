"""Have ghost invalidate objects of the cache, say whether it would, or tell what an invalidation would hit.

In:   the port of the reload socket, and an Invalidation.
Out:  how many objects each target hit, once ghost has carried all of them out. BadDocument says what ghost can't take,
such as a regular expression; ConnectionError that it is unknown how much was carried out. Asking again does no harm.
ghost takes only a POST for the host localhost, as it does for a drain.
"""

from typing import TypeVar

import msgspec

from varnish_gateway import errors
from varnish_gateway.dataplane.ghost.loopback import post
from varnish_gateway.dataplane.jsontext import read_json
from varnish_gateway.ir.inspection import Stored
from varnish_gateway.ir.invalidation import Invalidation, InvalidationResult

PATHS = "/.varnish-ghost"
ANSWER_SECONDS = 30.0
"""A million objects take seconds. Beyond this, clients had better ask again than wait."""

LOOK_SECONDS = 5.0
"""To read a document, or to look at the objects of one URI, for which ghost takes 2 s at most."""

T = TypeVar("T")


async def invalidate(port: int, invalidation: Invalidation) -> tuple[int, ...]:
    """Return the counts; raise BadDocument or ConnectionError."""
    objects = (await _ask(port, "invalidate", invalidation, InvalidationResult, ANSWER_SECONDS)).objects
    if len(objects) != len(invalidation.targets):
        raise ConnectionError(f"ghost answered {len(objects)} counts to {len(invalidation.targets)} targets")
    return objects


async def check(port: int, invalidation: Invalidation) -> None:
    """Raise BadDocument where ghost would not carry it out, ConnectionError where that isn't known."""
    await _ask(port, "check", invalidation, InvalidationResult, LOOK_SECONDS)


async def inspect(port: int, invalidation: Invalidation) -> Stored:
    """Return what the invalidation of one URI would hit; raise BadDocument or ConnectionError."""
    return await _ask(port, "inspect", invalidation, Stored, LOOK_SECONDS)


async def _ask(port: int, page: str, invalidation: Invalidation, expected: type[T], seconds: float) -> T:
    status, _, body = await post(port, f"{PATHS}/{page}", seconds, msgspec.json.encode(invalidation))
    if status == 400:
        raise errors.BadDocument(_reason(body))
    if status != 200:
        raise ConnectionError(f"the reload socket answered {status} to the invalidation: {_reason(body)}")
    try:
        return read_json(body, expected, page)
    except errors.BadDocument as error:
        raise ConnectionError("the reload socket answered something that is not ghost's") from error


def _reason(body: bytes) -> str:
    """Return the error that ghost names."""
    try:
        return read_json(body, dict[str, str], "invalidation")["error"]
    except (errors.BadDocument, KeyError):
        return "ghost names no reason; does the VCL call ghost.recv()?"
