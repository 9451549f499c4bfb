"""The translation of one Gateway as of now: the sum of all its deltas."""

from msgspec import UNSET, Struct, UnsetType, field

from varnish_gateway.api import Key
from varnish_gateway.api.varnish import Parameters
from varnish_gateway.ir import wire
from varnish_gateway.ir.delta import GatewayDelta, UserVcl, UserVclUnavailable
from varnish_gateway.ir.tls import Tls


class GatewayState(Struct, kw_only=True):
    """Everything that translation last published about one Gateway; ``apply`` is the only place that folds a delta.

    ``user_vcl`` is the last one that was available, None without user VCL, and UNSET until
    translation has published either. ``user_vcl_unavailable`` says why the current one can't be
    read. ``parameters`` are the last valid ones, and None until there are any.
    """

    listeners: tuple[wire.Listener, ...] = ()
    placed: tuple[wire.Listener, ...] = ()
    user_vcl: UserVcl | UnsetType | None = UNSET
    user_vcl_unavailable: UserVclUnavailable | None = None
    parameters: Parameters | None = None
    tls: Tls = field(default_factory=Tls)
    routes: dict[Key, wire.Route] = field(default_factory=dict)

    def apply(self, delta: GatewayDelta) -> None:
        """Fold a delta in. The cost is that of the delta, whatever the number of routes."""
        if delta.listeners is not None:
            self.listeners = delta.listeners
        if delta.placed is not None:
            self.placed = delta.placed
        if delta.parameters is not None:
            self.parameters = delta.parameters
        if delta.tls is not None:
            self.tls = delta.tls
        if isinstance(delta.user_vcl, UserVclUnavailable):
            self.user_vcl_unavailable = delta.user_vcl
        elif delta.user_vcl is not UNSET:
            self.user_vcl, self.user_vcl_unavailable = delta.user_vcl, None
        for key, route in delta.routes.items():
            if route is None:
                self.routes.pop(key, None)
            else:
                self.routes[key] = route
