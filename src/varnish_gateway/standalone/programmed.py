"""Complete statuses with what a data plane on this machine reports.

In:   the status of a Gateway or of one of its ListenerSets, the report of the data plane, all listeners.
Out:  the status with Programmed.
Pure. A socket that is closed affects its own listeners: those of a ListenerSet keep no Gateway from being programmed.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from varnish_gateway.api import Key
from varnish_gateway.ir import GatewayStatus, ListenerSetStatus, wire
from varnish_gateway.translate import with_parent_programmed, with_programmed


class PlaneReport(NamedTuple):
    """Whether the desired state serves, the reason if not, and closed sockets, each with its reason."""

    served: bool
    message: str
    closed: Mapping[str, str]


def with_report(
    key: Key, status: GatewayStatus | ListenerSetStatus, report: PlaneReport, listeners: Iterable[wire.Listener]
) -> GatewayStatus | ListenerSetStatus:
    """Return the status with what the data plane of its Gateway reported."""
    served, message, reasons = report
    own = (key.namespace, key.name) if isinstance(status, ListenerSetStatus) else None
    closed: dict[str, str] = {}
    for listener in listeners:
        of_set = listener.listener_set
        if listener.socket in reasons and own == (of_set and of_set[:2]):
            closed[of_set[2] if of_set else listener.name] = listener.socket
    message = "; ".join(
        part for part in (message, *(reasons[socket] for socket in sorted(set(closed.values())))) if part
    )
    if isinstance(status, ListenerSetStatus):
        return with_parent_programmed(status, served=served, message=message, closed=closed)
    return with_programmed(status, served=served and not closed, message=message)
