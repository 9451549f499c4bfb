"""What a Gateway serves: its own listeners and those of its ListenerSets, with their certificates.

In:   the Gateway and its ListenerSets, settled.
Out:  Served, the whole of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from varnish_gateway import ir
from varnish_gateway.ir import wire
from varnish_gateway.translate.gateway.listeners import to_wire
from varnish_gateway.translate.gateway.overlaps import overlapping
from varnish_gateway.translate.tls import termination

if TYPE_CHECKING:
    from collections.abc import Sequence

    from varnish_gateway.translate.gateway.gateways import Settled
    from varnish_gateway.translate.gateway.listener_sets import SettledSet
    from varnish_gateway.translate.incremental.view import Parent


class Served(Struct, frozen=True):
    listeners: tuple[wire.Listener, ...]
    placed: tuple[wire.Listener, ...]  # these, and those that wait for what they refer to
    tls: ir.Tls
    overlapping: frozenset[str]  # ids of listeners
    accepted_sets: int  # of the Gateway's ListenerSets


def assemble(gateway: Settled, sets: Sequence[SettledSet]) -> Served:
    """Return what is to be served, the Gateway's own first, then ``sets`` in their order."""
    owners: tuple[Parent, ...] = (gateway, *sets)
    placed = [listener for owner in owners for listener in owner.listeners if listener.has_place]
    served = [listener for listener in placed if listener.is_served]
    material = termination.Material(
        certificates={name: files for owner in owners for name, files in owner.draft.material.certificates.items()},
        clients={port: found for owner in owners for port, found in owner.draft.material.clients.items()},
    )
    return Served(
        listeners=tuple(map(to_wire, served)),
        placed=tuple(map(to_wire, placed)),
        tls=termination.assemble(served, material),
        overlapping=overlapping(placed),
        accepted_sets=sum(each.refused is None for each in sets),
    )


def add_served(changes: ir.GatewayDelta, before: Served | None, after: Served) -> None:
    """Put into the changes of a Gateway what it serves otherwise than before; it begins without TLS."""
    if before is None or before.listeners != after.listeners:
        changes.listeners = after.listeners
    if before is None or before.placed != after.placed:
        changes.placed = after.placed
    if after.tls != (before.tls if before else ir.Tls()):
        changes.tls = after.tls
