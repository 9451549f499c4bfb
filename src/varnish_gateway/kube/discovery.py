"""Find out whether a kind is installed.

In:   a kind and the versions in which we can read it.
Out:  the version that is served, or None if the kind is not installed.
A starting API server answers 404 for kinds that it does not know yet. So the result is None only
after it answered 404 twice, with a pause, and reported itself ready. An answer that is not a list of
kinds raises ApiError.
"""

import asyncio
from collections.abc import Iterable
from typing import Literal

import msgspec

from varnish_gateway import errors
from varnish_gateway.kube.client import Client
from varnish_gateway.kube.resources import Resource

_PAUSE_SECONDS = 1.0


class _Kind(msgspec.Struct):
    name: str


class _Kinds(msgspec.Struct):
    kind: Literal["APIResourceList"]
    resources: tuple[_Kind, ...]


async def served_version(
    client: Client, resource: Resource, versions: Iterable[str], *, surely: bool = True
) -> str | None:
    """Return the first of versions that is served, or None; without surely one look is enough."""
    for pause in (0.0, _PAUSE_SECONDS) if surely else (0.0,):
        await asyncio.sleep(pause)
        for version in versions:
            if await _is_served(client, resource._replace(version=version)):
                return version
        await client.read("/readyz", accept="text/plain")
    return None


async def _is_served(client: Client, resource: Resource) -> bool:
    try:
        answer = await client.read(resource.discovery, verb="discover")
    except errors.NotFound:
        return False
    try:
        kinds = msgspec.json.decode(answer, type=_Kinds)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise errors.ApiError(f"{resource.discovery} does not list kinds: {error}") from error
    return any(kind.name == resource.plural for kind in kinds.resources)
