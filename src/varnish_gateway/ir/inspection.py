"""What a cache holds for one URI.

In:   JSON from a client that asks for it.
Out:  an Inspection, or BadDocument that names the field and what to write there; what ghost answers, and what
      clients get of all Gateways here.
Pure. Durations are milliseconds.
"""

import msgspec
from msgspec import Struct

from varnish_gateway import errors
from varnish_gateway.ir.invalidation import Invalidation, InvalidationTarget, UriTarget, field_first
from varnish_gateway.ir.wire import Wire


class Inspection(Wire, frozen=True):
    """A URI as clients request it: ``target`` is path with query."""

    host: str
    target: str

    @property
    def as_invalidation(self) -> Invalidation:
        """What would remove it. Who may do that may see it, so that scopes and restrictions are the same."""
        return Invalidation(targets=(InvalidationTarget(uri=UriTarget(self.host, self.target)),))


class StoredVariant(Struct, frozen=True, rename="camel"):
    """One stored response. ``ttl`` is negative where it is stale; ``kept`` is when it is removed, at the latest."""

    rule: str
    policy: str
    status: int
    fresh: bool
    age: int
    lifetime: int
    ttl: int
    grace: int  # for how long it may be used while a new one is fetched
    stale_if_error: int
    kept: int
    must_revalidate: bool
    always_revalidate: bool
    hits: int
    size: int | None  # None while its body arrives
    vary: str
    tags: tuple[str, ...]  # as an invalidation names them
    more_tags: int
    reason: str


class Stored(Struct, frozen=True, rename="camel"):
    """What ghost answers. ``more``: not all that is stored was looked at."""

    variants: tuple[StoredVariant, ...]
    more: bool


class GatewayInspection(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What one Gateway holds, or why that isn't known. ``name`` is "" for the Gateway of a pod."""

    name: str
    error: str = ""
    variants: tuple[StoredVariant, ...] = ()
    more: bool = False


class InspectionResult(Struct, frozen=True, rename="camel"):
    gateways: tuple[GatewayInspection, ...]


_decode = msgspec.json.Decoder(Inspection).decode


def read_inspection(content: bytes) -> Inspection:
    """Decode a question; raise BadDocument. ghost decides what is wrong with a host or a target."""
    try:
        return _decode(content)
    except (ValueError, RecursionError) as error:
        raise errors.BadDocument(field_first(str(error))) from None
