"""What translation makes; data only."""

from varnish_gateway.ir.delta import Delta, GatewayDelta, Logging, Parameters, UserVcl, UserVclUnavailable
from varnish_gateway.ir.status import (
    Address,
    Condition,
    GatewayClassStatus,
    GatewayStatus,
    ListenerStatus,
    ParentRef,
    ParentStatus,
    RouteKind,
    RouteStatus,
    Status,
)

__all__ = [
    "Address",
    "Condition",
    "Delta",
    "GatewayClassStatus",
    "GatewayDelta",
    "GatewayStatus",
    "ListenerStatus",
    "Logging",
    "Parameters",
    "ParentRef",
    "ParentStatus",
    "RouteKind",
    "RouteStatus",
    "Status",
    "UserVcl",
    "UserVclUnavailable",
]
