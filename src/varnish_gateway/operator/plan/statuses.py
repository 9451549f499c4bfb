"""Desired statuses of all objects.

In:   statuses from translation, readiness of Gateways, and the stored statuses.
Out:  the status to write for an object, or that ours has to be withdrawn.
Pure. A status is complete only with the readiness of its Gateway: until that is known there is
nothing to write.
"""

from collections.abc import Callable, Mapping

from varnish_gateway import api, ir
from varnish_gateway.api import Key
from varnish_gateway.operator.observe.state import ObservedState
from varnish_gateway.operator.plan.results import Postponed
from varnish_gateway.operator.status.documents import SHARED, Applied
from varnish_gateway.operator.status.readiness import Readiness
from varnish_gateway.translate import with_parent_programmed, with_programmed, with_unserved, with_withheld
from varnish_gateway.translate.gateway.listener_set_index import ListenerSetIndex
from varnish_gateway.translate.options import CONTROLLER

COUNTING = (api.Gateway.kind, api.ListenerSet.kind)
COUNTING_STATUS_SECONDS = 0.2
"""Statuses that count routes are written at most this often: a burst of routes changes them all the time."""


class DesiredStatuses:
    """A status of None: ours has to be withdrawn from the object."""

    def __init__(
        self,
        observed: ObservedState,
        listener_sets: ListenerSetIndex,
        readiness: Mapping[Key, Readiness],
        sockets_of: Callable[[Key, Key], Mapping[str, str]],
        postponed: Mapping[Key, Postponed],
    ) -> None:
        self.observed = observed
        self._listener_sets = listener_sets
        self._readiness = readiness
        self._sockets_of = sockets_of
        self._postponed = postponed
        self._statuses: dict[Key, ir.Status | None] = {}
        self._written: dict[Key, float] = {}

    def update(self, key: Key, status: ir.Status | None) -> None:
        """Replace the status of an object; None withdraws it."""
        if status is None:
            self._written.pop(key, None)
        if status is None and key not in self.observed.inputs:
            self._statuses.pop(key, None)
        else:
            self._statuses[key] = status

    def withdraw_leftover(self, key: Key) -> bool:
        """Withdraw a stored status of ours for which there is no desired one; return whether there is such a status.

        It is from an earlier operator, or from a write whose answer was lost.
        """
        observed = self.observed.inputs.get(key)
        if observed is None or key in self._statuses:
            return False
        is_ours = observed.has_our_status or (key.kind in SHARED and CONTROLLER.encode() in observed.status)
        if is_ours:
            self._statuses[key] = None
        return is_ours

    def on_withdrawn(self, key: Key) -> None:
        """Forget an object whose status was withdrawn, unless it has a new one by now."""
        if self._statuses.get(key) is None:
            self._statuses.pop(key, None)

    def forget(self, key: Key) -> None:
        """Leave the status of an object to another operator, as it is stored."""
        self._statuses.pop(key, None)

    def forget_writes(self, gateway: Key) -> None:
        """Write the next status of a Gateway without delay."""
        self._written.pop(gateway, None)

    def get(self, key: Key) -> ir.Status | None:
        return self._statuses.get(key)

    def with_readiness(self, key: Key, status: ir.GatewayStatus | ir.ListenerSetStatus) -> Applied | None:
        """Add the readiness of its Gateway to a status; return None until that is known."""
        gateway = self._listener_sets.gateway_of(key)
        readiness = self._readiness.get(gateway)
        if readiness is None:
            return None
        served, reason, message = readiness.is_serving, readiness.reason, readiness.message
        if isinstance(status, ir.GatewayStatus):
            complete = with_programmed(
                status, served=served, reason=reason, message=message, addresses=readiness.addresses
            )
            return with_unserved(with_withheld(complete, readiness.withheld), readiness.unserved)
        return self._with_parent(key, gateway, status, readiness)

    def _with_parent(
        self, key: Key, gateway: Key, status: ir.ListenerSetStatus, readiness: Readiness
    ) -> ir.ListenerSetStatus:
        """Add the readiness of its Gateway to a ListenerSet; remarks about other tenants are not for its owner."""
        sockets = self._sockets_of(gateway, key)
        closed = {name: socket for name, socket in sockets.items() if socket not in readiness.open_sockets}
        postponed = self._postponed.get(gateway) if closed else None
        waiting = [postponed.message] if postponed is not None else []
        waiting += [why for socket, why in readiness.closed_sockets.items() if socket in closed.values()]
        deferred = readiness.deferred_sockets.items()
        waiting += [f"{socket}: {why}" for socket, why in deferred if socket in sockets.values()]
        return with_parent_programmed(
            status,
            served=readiness.is_serving,
            reason=readiness.reason,
            message="; ".join(part for part in (readiness.cause, *waiting) if part),
            closed=closed,
        )

    def affected_by(self, gateway: Key) -> list[Key]:
        """Return the objects whose status states the readiness of a Gateway."""
        return [gateway, *self._listener_sets.of(gateway)]

    def keys(self) -> list[Key]:
        return list(self._statuses)

    def __contains__(self, key: Key) -> bool:
        return key in self._statuses

    def delay(self, key: Key, now: float) -> float:
        """Return how long a write has to wait; at 0 the caller writes, and the next write waits."""
        if key.kind not in COUNTING:
            return 0.0
        wait = self._written.get(key, 0.0) + COUNTING_STATUS_SECONDS - now
        if wait > 0:
            return wait
        if self._statuses.get(key) is not None:
            self._written[key] = now
        return 0.0
