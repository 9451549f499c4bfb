"""Conflicts between listeners of several Gateways and ListenerSets.

In:   the listeners of one Gateway or ListenerSet, each of which claims places: a port of the
      machine, a port of its Gateway, a hostname on that port.
Out:  the listeners, in conflict where another claim wins.
The Gateway's own listeners win over those of its ListenerSets, and these win by precedence.
Conflicts inside one Gateway or ListenerSet are found in listeners.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from varnish_gateway.translate.conditions import Problem
from varnish_gateway.translate.gateway import listeners
from varnish_gateway.translate.incremental.dependency import Derived

if TYPE_CHECKING:
    from collections.abc import Iterable

    from varnish_gateway.api import Key
    from varnish_gateway.translate.incremental.claims import Claim
    from varnish_gateway.translate.incremental.view import View
    from varnish_gateway.translate.listener import ValidatedListener


def machine_port(port: int) -> Derived:
    """Return a port of this machine, which several Gateways can claim."""
    return Derived("port", port)


def gateway_port(gateway: Key, port: int) -> Derived:
    """Return a port of a Gateway, which listeners of one family of protocols can share."""
    return Derived("port of a Gateway", (gateway, port))


def gateway_hostname(gateway: Key, port: int, protocol: str, hostname: str) -> Derived:
    """Return the place of one listener among all those of a Gateway."""
    return Derived("hostname of a Gateway", (gateway, port, protocol, hostname))


def claims_of(
    listeners_: Iterable[ValidatedListener], gateway: Key, claim: Claim, on_a_machine: Claim
) -> dict[Derived, Claim]:
    """Return the claims of all listeners of one Gateway or ListenerSet."""
    places: dict[Derived, Claim] = {}
    for listener in listeners_:
        if listener.holds_port:
            port = listener.port
            places[machine_port(port)] = on_a_machine
            places[gateway_port(gateway, port)] = claim._replace(family=listener.family)
            places[gateway_hostname(gateway, port, listener.protocol, listener.hostname)] = claim
    return places


def on_machine(listener: ValidatedListener, gateway: Key, view: View) -> ValidatedListener:
    """Return a listener of a Gateway, rejected where another Gateway has its port on this machine."""
    winner = view.winner(machine_port(listener.port)) if listener.rejected is None else None
    if winner is None or winner.holder == gateway:
        return listener
    message = f"port {listener.port} belongs to {winner.holder}, by age or name; choose another one"
    return listeners.reject(listener, Problem("PortUnavailable", message))


def in_gateway(listener: ValidatedListener, listener_set: Key, gateway: Key, view: View) -> ValidatedListener:
    """Return a listener of a ListenerSet, in conflict where one of higher precedence has its port or hostname.

    The message does not name the other listener: its namespace may be none of the reader's business.
    """
    port = view.winner(gateway_port(gateway, listener.port))
    if port is not None and port.holder != listener_set and listener.family not in ("", port.family):
        message = f"port {listener.port} of {gateway} has listeners of a protocol that can't share it; choose another"
        return listeners.conflict_with_others(listener, Problem("ProtocolConflict", message))
    if not listener.holds_port:
        return listener
    place = view.winner(gateway_hostname(gateway, listener.port, listener.protocol, listener.hostname))
    if place is None or place.holder == listener_set:
        return listener
    message = f"port {listener.port} of {gateway} has a listener for {listener.hostname} already; choose another"
    return listeners.conflict_with_others(listener, Problem("HostnameConflict", message))
