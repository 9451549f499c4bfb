"""Pools that can't have endpoints, whatever the state of their pods.

In:   pools without endpoints, each with the EndpointSlices of its Service.
Out:  how many pools a user has to look at, and the first of them with the reason.
Pure. A Service that is scaled to zero has an EndpointSlice without ports, and is no mistake.
"""

from collections.abc import Collection
from heapq import nsmallest

from msgspec import Struct

from varnish_gateway.api import EndpointSlice
from varnish_gateway.api.discovery import SERVICE_LABEL

MOST_NAMED = 5


class UnservedPools(Struct, frozen=True):
    """``first`` are some of them, in the order of their names."""

    count: int = 0
    first: tuple[str, ...] = ()


class UnservedIndex:
    """Reasons by namespace and pool; reading costs nothing unless something changed."""

    def __init__(self) -> None:
        self._reasons: dict[str, dict[str, str]] = {}
        self._summary: UnservedPools | None = UnservedPools()

    def put(self, namespace: str, pool: str, reason: str | None) -> None:
        """Store why a pool has no endpoints, None for one that has some or may have some."""
        reasons = self._reasons.get(namespace, {})
        if reasons.get(pool) == reason:
            return
        self._summary = None
        if reason is not None:
            self._reasons.setdefault(namespace, {})[pool] = reason
            return
        del reasons[pool]
        if not reasons:
            del self._reasons[namespace]

    def forget_summary(self) -> None:
        """Summarise again: another namespace was listed."""
        self._summary = None

    def summary(self, listed: Collection[str]) -> UnservedPools:
        """Return the pools of namespaces that were listed; of others nothing is known."""
        if self._summary is None:
            known = {
                pool: why for space, found in self._reasons.items() if space in listed for pool, why in found.items()
            }
            first = tuple(f"{pool}: {known[pool]}" for pool in nsmallest(MOST_NAMED, known))
            self._summary = UnservedPools(len(known), first)
        return self._summary


def unserved_port(service: str, port_name: str | None, slices: Collection[EndpointSlice]) -> str | None:
    """Return why no EndpointSlice of a Service can serve a port; None if one may.

    ``port_name`` is None where any port will do.
    """
    if not slices:
        return f"no EndpointSlice has the label {SERVICE_LABEL}: {service.partition('/')[2]}"
    names = {port.name or "" for piece in slices for port in piece.ports or ()}
    if not names or port_name is None or port_name in names:
        return None
    named = ", ".join(sorted(names - {""})) or "one without a name"
    return f'no port of its EndpointSlices is called "{port_name}"; they have {named}'
