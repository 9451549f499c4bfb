"""What translation makes; data only."""

from varnish_gateway.api.varnish import Parameters
from varnish_gateway.ir.delta import Delta, GatewayDelta, UserVcl, UserVclUnavailable
from varnish_gateway.ir.gateway_state import GatewayState
from varnish_gateway.ir.status import (
    AncestorStatus,
    Condition,
    GatewayClassStatus,
    GatewayStatus,
    InvalidationStatus,
    ListenerSetStatus,
    ListenerStatus,
    ParentRef,
    ParentStatus,
    PathResult,
    PodResult,
    PolicyStatus,
    RouteKind,
    RouteStatus,
    Status,
    StatusAddress,
)
from varnish_gateway.ir.tls import Tls

__all__ = [
    "AncestorStatus",
    "Condition",
    "Delta",
    "GatewayClassStatus",
    "GatewayDelta",
    "GatewayState",
    "GatewayStatus",
    "InvalidationStatus",
    "ListenerSetStatus",
    "ListenerStatus",
    "Parameters",
    "ParentRef",
    "ParentStatus",
    "PathResult",
    "PodResult",
    "PolicyStatus",
    "RouteKind",
    "RouteStatus",
    "Status",
    "StatusAddress",
    "Tls",
    "UserVcl",
    "UserVclUnavailable",
]
