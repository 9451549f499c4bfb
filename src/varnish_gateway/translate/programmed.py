"""Complete a Gateway's status with what only its data plane knows.

In:   a status from translation, and whether its configuration is served.
Out:  the same with Programmed and the addresses. What translation found wrong stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from varnish_gateway.ir import Address, Condition, GatewayStatus


def with_programmed(
    status: GatewayStatus, *, served: bool, message: str = "", addresses: Sequence[Address] = ()
) -> GatewayStatus:
    """Return the status of a Gateway whose configuration is served, or not yet, as the message says."""
    return structs.replace(
        status,
        addresses=tuple(addresses),
        conditions=_completed(status.conditions, served=served, message=message),
        listeners=tuple(
            structs.replace(listener, conditions=_completed(listener.conditions, served=served, message=message))
            for listener in status.listeners
        ),
    )


def _completed(conditions: Sequence[Condition], *, served: bool, message: str) -> tuple[Condition, ...]:
    return tuple(_complete(condition, served=served, message=message) for condition in conditions)


def _complete(condition: Condition, *, served: bool, message: str) -> Condition:
    if condition.type != "Programmed" or condition.status != "Unknown":
        return condition
    if served:
        return structs.replace(condition, status="True", reason="Programmed", message=message)
    return structs.replace(condition, status="False", reason="Pending", message=message or condition.message)
