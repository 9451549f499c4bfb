"""What a Gateway serves: its own listeners and those of its ListenerSets, with their certificates.

In:   a Gateway and its ListenerSets, resolved.
Out:  EffectiveGateway. What changes about it is published as ir.GatewayDelta.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET, Struct

from varnish_gateway import api, ir
from varnish_gateway.translate.gateway import gateways, listener_sets
from varnish_gateway.translate.gateway.listeners import to_wire
from varnish_gateway.translate.gateway.overlapping_tls import overlapping
from varnish_gateway.translate.incremental.dependency import Table
from varnish_gateway.translate.layers import Layer
from varnish_gateway.translate.precedence import precedence
from varnish_gateway.translate.tls import termination
from varnish_gateway.translate.tls.material import merged

if TYPE_CHECKING:
    from varnish_gateway.api import Key
    from varnish_gateway.ir import wire
    from varnish_gateway.translate.gateway.listener_sets import ResolvedListenerSet
    from varnish_gateway.translate.gateway.parameters import Configured
    from varnish_gateway.translate.incremental.view import View
    from varnish_gateway.translate.options import Options


class EffectiveGateway(Struct, frozen=True):
    configured: Configured
    listeners: tuple[wire.Listener, ...]
    placed: tuple[wire.Listener, ...]  # these, and those that wait for a certificate or authority
    tls: ir.Tls
    overlapping: frozenset[str]  # ids of listeners
    accepted_sets: int  # of the Gateway's ListenerSets


def compute(key: Key, _: Options, view: View) -> EffectiveGateway | None:
    """Return what a Gateway of ours serves, its own listeners first."""
    gateway = view.get(gateways.RESOLVED, key)
    if gateway is None:
        return None
    sets = _sets_of(key, view)
    listeners = [*gateway.listeners, *(listener for each in sets for listener in each.listeners)]
    placed = [listener for listener in listeners if listener.holds_port]
    served = [listener for listener in placed if listener.is_served]
    material = merged([gateway.validated.material, *(each.validated.material for each in sets)])
    return EffectiveGateway(
        configured=gateway.validated.configured,
        listeners=tuple(map(to_wire, served)),
        placed=tuple(map(to_wire, placed)),
        tls=termination.assemble(served, material),
        overlapping=overlapping(placed),
        accepted_sets=sum(each.rejected is None for each in sets),
    )


def _sets_of(gateway: Key, view: View) -> list[ResolvedListenerSet]:
    """Return the ListenerSets of a Gateway in the order of precedence."""
    found = (view.get(listener_sets.RESOLVED, key) for key in view.members(api.ListenerSet, gateway))
    return sorted(filter(None, found), key=lambda each: precedence(each.validated.created, each.key))


def publish(delta: ir.Delta, key: Key, before: EffectiveGateway | None, after: EffectiveGateway | None) -> None:
    """Add what changed about a Gateway to the delta; None for one that is deleted or not ours any more."""
    if after is None:
        delta.gateways[key] = None
    elif (changes := _difference(before, after)) != ir.GatewayDelta():
        delta.gateways[key] = changes


def _difference(before: EffectiveGateway | None, after: EffectiveGateway) -> ir.GatewayDelta:
    configured = after.configured
    if before is None:
        return ir.GatewayDelta(
            listeners=after.listeners,
            placed=after.placed,
            user_vcl=configured.user_vcl,
            parameters=configured.parameters,
            tls=None if after.tls == ir.Tls() else after.tls,  # a Gateway begins without TLS
        )
    was = before.configured
    return ir.GatewayDelta(
        listeners=None if after.listeners == before.listeners else after.listeners,
        placed=None if after.placed == before.placed else after.placed,
        user_vcl=UNSET if configured.user_vcl == was.user_vcl else configured.user_vcl,
        parameters=None if configured.parameters == was.parameters else configured.parameters,
        tls=None if after.tls == before.tls else after.tls,
    )


EFFECTIVE: Table[EffectiveGateway] = Table("effective Gateway")
LAYER = Layer(table=EFFECTIVE, kinds=(api.Gateway.kind,), compute=compute, publish=publish)
