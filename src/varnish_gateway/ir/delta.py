"""What one update of translation changed."""

from msgspec import UNSET, Struct, UnsetType, field

from varnish_gateway.api import Key, Object
from varnish_gateway.api.varnish import Parameters
from varnish_gateway.ir import wire
from varnish_gateway.ir.status import Status
from varnish_gateway.ir.tls import Tls


class UserVcl(Struct, frozen=True):
    """VCL of the user's own. ``source`` names its origin, for people."""

    source: str
    text: str


class UserVclUnavailable(Struct, frozen=True):
    """User VCL is configured but can't be read now: the last valid one stays in force."""

    source: str
    reason: str


class GatewayDelta(Struct, kw_only=True):
    """What changed about one Gateway.

    ``listeners`` are those that are to be served, and None where they did not change. ``placed``
    are those whose sockets are open: a listener that waits for a certificate has its place
    already, so that pods need not be replaced when it comes.
    ``parameters`` are None where they did not change, or can't be had now. ``user_vcl`` is
    UNSET where it did not change and None where there is none. ``tls`` is None where it did
    not change. A route with the value None is gone.
    """

    listeners: tuple[wire.Listener, ...] | None = None
    placed: tuple[wire.Listener, ...] | None = None
    user_vcl: UserVcl | UserVclUnavailable | UnsetType | None = UNSET
    parameters: Parameters | None = None
    tls: Tls | None = None
    routes: dict[Key, wire.Route | None] = field(default_factory=dict)

    def merge(self, later: "GatewayDelta") -> "GatewayDelta":
        """Return one delta from before this one to after the later one."""
        return GatewayDelta(
            listeners=self.listeners if later.listeners is None else later.listeners,
            placed=self.placed if later.placed is None else later.placed,
            user_vcl=self.user_vcl if later.user_vcl is UNSET else later.user_vcl,
            parameters=self.parameters if later.parameters is None else later.parameters,
            tls=self.tls if later.tls is None else later.tls,
            routes={**self.routes, **later.routes},
        )


class Delta(Struct, kw_only=True):
    """What changed. A Gateway with the value None is gone, or not ours any more.

    A status with the value None means that the object is gone or not ours any more: the status
    that we wrote there before has to be removed.

    ``uncompiled`` are routes and policies whose patterns have to be compiled before they can be translated, None for
    one that waits no longer. ``released`` are those whose compiled patterns are needed no longer.
    """

    gateways: dict[Key, GatewayDelta | None] = field(default_factory=dict)
    statuses: dict[Key, Status | None] = field(default_factory=dict)
    uncompiled: dict[Key, Object | None] = field(default_factory=dict)
    released: set[Key] = field(default_factory=set)

    def merge(self, later: "Delta") -> "Delta | None":
        """Return one delta from before this one to after the later one.

        None where a Gateway is deleted by this one and recreated by the later one.
        """
        gateways = {**self.gateways}
        for key, changes in later.gateways.items():
            known = gateways.get(key)
            if changes is not None and key in gateways and known is None:
                return None
            gateways[key] = changes if changes is None or known is None else known.merge(changes)
        return Delta(
            gateways=gateways,
            statuses={**self.statuses, **later.statuses},
            uncompiled={**self.uncompiled, **later.uncompiled},
            released=self.released | later.released,
        )
