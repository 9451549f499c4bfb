"""What translation makes; data only."""

from varnish_gateway.ir.delta import Delta, GatewayDelta, UserVcl, UserVclUnavailable
from varnish_gateway.ir.gateway_state import GatewayState
from varnish_gateway.ir.parameters import Autoscaling, Logging, Parameters, ServiceParameters
from varnish_gateway.ir.status import (
    Address,
    Condition,
    GatewayClassStatus,
    GatewayStatus,
    ListenerSetStatus,
    ListenerStatus,
    ParentRef,
    ParentStatus,
    RouteKind,
    RouteStatus,
    Status,
)
from varnish_gateway.ir.tls import Tls

__all__ = [
    "Address",
    "Autoscaling",
    "Condition",
    "Delta",
    "GatewayClassStatus",
    "GatewayDelta",
    "GatewayState",
    "GatewayStatus",
    "ListenerSetStatus",
    "ListenerStatus",
    "Logging",
    "Parameters",
    "ParentRef",
    "ParentStatus",
    "RouteKind",
    "RouteStatus",
    "ServiceParameters",
    "Status",
    "Tls",
    "UserVcl",
    "UserVclUnavailable",
]
