"""What Gateways and ListenerSets have in common: they have listeners.

In:   the listeners of one owner, judged.
Out:  what they claim, and whether the owner is accepted with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from varnish_gateway.ir import Condition
from varnish_gateway.translate.conditions import Problem, listed, positive
from varnish_gateway.translate.incremental.claims import gateway_hostname, gateway_port, machine_port

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from varnish_gateway.api import Key
    from varnish_gateway.translate.gateway.listeners import Listener
    from varnish_gateway.translate.incremental.claims import Claim


def claims_of(of: Iterable[Listener], gateway: Key, claim: Claim, on_a_machine: Claim) -> dict[Key, Claim]:
    """Return the places that listeners of one owner take, if nobody goes before it."""
    places: dict[Key, Claim] = {}
    for listener in of:
        if listener.has_place:
            port = listener.port
            places[machine_port(port)] = on_a_machine
            places[gateway_port(gateway, port)] = claim._replace(family=listener.family)
            places[gateway_hostname(gateway, port, listener.protocol, listener.hostname)] = claim
    return places


def none_served(of: Collection[Listener]) -> Problem | None:
    """Return a problem where no listener can be served."""
    faulty = _faulty(of)
    if len(faulty) < len(of):
        return None
    return Problem("ListenersNotValid", f"no listener can be served, see their conditions: {names(faulty)}")


def acceptance(refused: Problem | None, of: Collection[Listener], generation: int) -> Condition:
    """Return Accepted of a Gateway or ListenerSet, which says so where some of its listeners can't be served."""
    faulty = _faulty(of)
    if refused is not None or not faulty:
        return positive("Accepted", refused, generation)
    message = f"not served, see their conditions: {names(faulty)}"
    return Condition("Accepted", "True", "ListenersNotValid", message, generation)


def names(of: Collection[Listener]) -> str:
    """Return the names of listeners, for people."""
    return listed([listener.name for listener in of], ", ") or "there is none"


def _faulty(of: Iterable[Listener]) -> list[Listener]:
    return [listener for listener in of if not listener.is_served]
