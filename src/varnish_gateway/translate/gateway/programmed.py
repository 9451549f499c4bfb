"""Complete the status of a Gateway, or of one of its ListenerSets, with what only the data plane knows.

In:   a status from translation, and whether the Gateway's configuration is served.
Out:  the same with Programmed, the addresses, Withheld and UnservedBackends. What translation found wrong stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from varnish_gateway.translate.conditions import clipped, listed, unserved_backends, withheld

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from varnish_gateway.ir import Condition, GatewayStatus, ListenerSetStatus, ListenerStatus, StatusAddress

LISTENER_REASONS = ("Invalid", "Pending")
"""Reasons that a listener may have; the other reasons apply only to a Gateway as a whole."""
LISTENER_MESSAGE = 1000
"""The most characters of a message that each of up to 64 listeners repeats: the whole status has to fit into etcd."""


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
    status: ListenerSetStatus,
    *,
    served: bool,
    message: str = "",
    reason: str = "Pending",
    closed: Mapping[str, str] | None = None,
) -> ListenerSetStatus:
    """Return the status with the condition Programmed, True if the ListenerSet's Gateway is served.

    ``closed`` are the sockets, by listener, that pods don't have open yet.
    """
    closed = closed or {}
    listeners = _listeners(status.listeners, served=served, reason=reason, message=message)
    if not served or not closed:
        reason = "ParentNotProgrammed"
    else:
        listeners = tuple(
            _closed(waiting, after, closed, message) for waiting, after in zip(status.listeners, listeners, strict=True)
        )
        served, reason, message = False, "Pending", _not_open(sorted(set(closed.values())), message)
    return structs.replace(
        status,
        conditions=_completed(status.conditions, served=served, reason=reason, message=message),
        listeners=listeners,
    )


def with_withheld(status: GatewayStatus, message: str) -> GatewayStatus:
    """Return the status with the condition Withheld, if there is a message of what pods don't understand."""
    if not message:
        return status
    return _with_notice(status, withheld(message, status.conditions[0].observed_generation))


def with_unserved(status: GatewayStatus, message: str) -> GatewayStatus:
    """Return the status with a condition about backends that can't have endpoints, if there is a message of some."""
    if not message:
        return status
    return _with_notice(status, unserved_backends(message, status.conditions[0].observed_generation))


def _with_notice(status: GatewayStatus, notice: Condition) -> GatewayStatus:
    return structs.replace(status, conditions=(*status.conditions, notice))


def _closed(
    listener: ListenerStatus, completed: ListenerStatus, closed: Mapping[str, str], message: str
) -> ListenerStatus:
    """Return a listener as completed, or as Pending if its socket is closed."""
    if listener.name not in closed:
        return completed
    message = clipped(_not_open([closed[listener.name]], message), LISTENER_MESSAGE)
    return structs.replace(
        listener, conditions=_completed(listener.conditions, served=False, reason="Pending", message=message)
    )


def _not_open(sockets: Sequence[str], message: str) -> str:
    return "; ".join(part for part in (f"{listed(sockets, ', ')} is not open in the pods yet", message) if part)


def _listeners(
    listeners: Sequence[ListenerStatus], *, served: bool, reason: str, message: str
) -> tuple[ListenerStatus, ...]:
    reason, message = reason if reason in LISTENER_REASONS else "Pending", clipped(message, LISTENER_MESSAGE)
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
