"""What is said to a data plane, and what it says.

In:   nothing; these are values.
Out:  Change and Outcome of one ``apply``, InForce for a restart, Served for whoever asks.
"""

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from varnish_gateway.api import EndpointSlice, Key
from varnish_gateway.dataplane.ghost.files import Bundle, Pool
from varnish_gateway.dataplane.process.sockets import Sockets
from varnish_gateway.ir import Tls


class Change(Struct, frozen=True, kw_only=True):
    """What is different from now on; None and absent mean unchanged.

    ``remembered`` are pools from before a restart; they count until their namespace is among
    ``listed``, that is, until all its slices are known. ``bundle`` stands instead of routing and
    slices where somebody wrote ghost's files by hand. ``generation`` names the input; health
    reports the generation that serves.
    """

    vcl: str | None = None
    sockets: Sockets | None = None
    extra_args: tuple[str, ...] | None = None
    routing: Mapping[int, bytes | None] = {}
    slices: Mapping[Key, EndpointSlice | None] = {}
    remembered: Mapping[str, Pool] = {}
    listed: frozenset[str] = frozenset()
    bundle: Bundle | None = None
    tls: Tls | None = None
    generation: str | None = None


class Outcome(Struct, frozen=True):
    """What a pass could not do. Empty: the newest configuration serves."""

    problems: tuple[Exception, ...] = ()

    @property
    def serves(self) -> bool:
        return not self.problems


class InForce(Struct, frozen=True):
    """All that it takes to serve the same again after a restart."""

    vcl: str
    bundle: Bundle
    generation: str | None
    tls: Tls | None = None


class Served(Struct, frozen=True, kw_only=True, rename="camel"):
    """What serves at this moment.

    ``tls`` is the hash of the tls.json whose certificates all serve.
    ``problems`` stand against the newest configuration; ``troubles`` are sources that can't be
    followed now. ``away_since``: the API server has not answered since then.
    """

    ready: bool
    reason: str
    configuration: str | None
    vcl: str | None
    generation: str | None
    sockets: tuple[str, ...]
    tls: str | None = None
    up_to_date: bool
    problems: tuple[str, ...]
    troubles: tuple[str, ...] = ()
    away_since: datetime | None = None
