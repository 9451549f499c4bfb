"""Complete the status of a Gateway, or of one of its ListenerSets, with what only the data plane knows.

In:   a status from translation, and whether the Gateway's configuration is served.
Out:  the same with Programmed and the addresses. What translation found wrong stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from varnish_gateway.translate.conditions import clipped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from varnish_gateway.ir import Condition, GatewayStatus, ListenerSetStatus, ListenerStatus, StatusAddress

LISTENER_REASONS = ("Invalid", "Pending")
"""Reasons that a listener may have; the other reasons apply only to a Gateway as a whole."""


def with_programmed(
    status: GatewayStatus,
    *,
    served: bool,
    message: str = "",
    reason: str = "Pending",
    addresses: Sequence[StatusAddress] = (),
) -> GatewayStatus:
    """Return the status with the condition Programmed, True if the configuration is served.

    Listeners have fewer reasons than Gateways: an unserved listener without its own reason is Pending.
    """
    return structs.replace(
        status,
        addresses=tuple(addresses),
        conditions=_completed(status.conditions, served=served, reason=reason, message=message),
        listeners=_listeners(status.listeners, served=served, reason=reason, message=message),
    )


def with_parent_programmed(
    status: ListenerSetStatus, *, served: bool, message: str = "", reason: str = "Pending"
) -> ListenerSetStatus:
    """Return the status with the condition Programmed, True if the ListenerSet's Gateway is served."""
    return structs.replace(
        status,
        conditions=_completed(status.conditions, served=served, reason="ParentNotProgrammed", message=message),
        listeners=_listeners(status.listeners, served=served, reason=reason, message=message),
    )


def _listeners(
    listeners: Sequence[ListenerStatus], *, served: bool, reason: str, message: str
) -> tuple[ListenerStatus, ...]:
    reason = reason if reason in LISTENER_REASONS else "Pending"
    return tuple(
        structs.replace(
            listener, conditions=_completed(listener.conditions, served=served, reason=reason, message=message)
        )
        for listener in listeners
    )


def _completed(conditions: Sequence[Condition], *, served: bool, reason: str, message: str) -> tuple[Condition, ...]:
    return tuple(_complete(condition, served=served, reason=reason, message=message) for condition in conditions)


def _complete(condition: Condition, *, served: bool, reason: str, message: str) -> Condition:
    if condition.type != "Programmed" or condition.status != "Unknown":
        return condition
    if served:
        return structs.replace(condition, status="True", reason="Programmed", message=clipped(message))
    return structs.replace(condition, status="False", reason=reason, message=clipped(message or condition.message))
