"""The values that go into a data plane and come out of it.

In:   nothing; these are values.
Out:  Change and Outcome of one ``apply``, InForce for a restart, ServingState for health.
"""

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from varnish_gateway.api import EndpointSlice, Key
from varnish_gateway.dataplane.ghost.files import Bundle, Pool
from varnish_gateway.dataplane.ghost.unserved import UnservedPools
from varnish_gateway.dataplane.process.sockets import Sockets
from varnish_gateway.ir import Tls
from varnish_gateway.ir.capabilities import ALL
from varnish_gateway.version import VERSION


class Change(Struct, frozen=True, kw_only=True):
    """What is different from now on; None and absent mean unchanged.

    ``remembered`` are pools from before a restart; they count until their namespace is among
    ``listed``, that is, until all its slices are known. ``bundle`` replaces routing and slices where
    a user wrote ghost's files by hand. ``generation`` names the input; health reports the generation
    that serves. Other Gateways on this machine have listeners on the ``needed_ports``.
    """

    vcl: str | None = None
    sockets: Sockets | None = None
    needed_ports: frozenset[int] | None = None
    extra_args: tuple[str, ...] | None = None
    routing: Mapping[int, bytes | None] = {}
    slices: Mapping[Key, EndpointSlice | None] = {}
    remembered: Mapping[str, Pool] = {}
    listed: frozenset[str] = frozenset()
    bundle: Bundle | None = None
    tls: Tls | None = None
    generation: str | None = None

    @property
    def affects_ghost(self) -> bool:
        """Whether routing has to be joined with endpoints again."""
        return bool(self.routing or self.slices or self.remembered or self.listed)

    @property
    def affects_terminator(self) -> bool:
        """Whether it is in force only when the TLS terminator has applied it."""
        return self.opens_ports or self.tls is not None

    @property
    def opens_ports(self) -> bool:
        """Whether ports open or close."""
        return self.sockets is not None or self.needed_ports is not None

    def merge(self, *later: "Change") -> "Change":
        """Return one change that has the effect of this one and of the later ones, in their order."""
        changes: tuple[Change, ...] = (self, *later)
        merged: dict[str, object] = {}
        for change in changes:
            for name in ("vcl", "sockets", "needed_ports", "extra_args", "bundle", "tls", "generation"):
                if (value := getattr(change, name)) is not None:
                    merged[name] = value
        for name in ("routing", "slices", "remembered"):
            merged[name] = _united([getattr(change, name) for change in changes])
        merged["listed"] = frozenset[str]().union(*(change.listed for change in changes))
        return Change(**merged)  # type: ignore[arg-type]


def _united(mappings: list[Mapping[object, object]]) -> Mapping[object, object]:
    """Return one mapping; a later value replaces an earlier one."""
    filled = [mapping for mapping in mappings if mapping]
    if len(filled) < 2:
        return filled[0] if filled else {}
    united: dict[object, object] = {}
    for mapping in filled:
        united.update(mapping)
    return united


class Outcome(Struct, frozen=True):
    """What a pass could not do. Without problems the newest configuration serves.

    ``closed`` are sockets, of ports that opened while varnishd runs, that can't be opened now, with the reason.
    """

    problems: tuple[Exception, ...] = ()
    closed: Mapping[str, str] = {}

    @property
    def serves(self) -> bool:
        return not self.problems


class InForce(Struct, frozen=True):
    """Everything that a restarted data plane needs to serve the same again."""

    vcl: str
    bundle: Bundle
    generation: str | None
    tls: Tls | None = None


class ServingState(Struct, frozen=True, kw_only=True, rename="camel"):
    """What serves at this moment, as /ready reports it.

    ``tls`` is the hash of the tls.json whose certificates all serve, but for those of closed and deferred sockets.
    ``problems`` keep the newest configuration from serving; ``troubles`` are sources that can't be
    watched now. ``warnings`` affect no traffic. ``away_since``: the API server has not answered since then.
    ``capabilities`` and ``version`` are of this package, less what the machine lacks: they don't depend on what
    serves.
    ``unserved`` are backends that can't have endpoints. ``closed`` are sockets that should have opened while
    varnishd runs and could not yet, each with its reason: they affect nothing else. ``deferred`` are open sockets
    whose newest certificates or authorities wait; the former ones serve there.
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
    warnings: tuple[str, ...] = ()
    away_since: datetime | None = None
    capabilities: tuple[str, ...] = tuple(sorted(ALL))
    version: str = VERSION
    unserved: UnservedPools = UnservedPools()
    closed: Mapping[str, str] = {}
    deferred: Mapping[str, str] = {}
