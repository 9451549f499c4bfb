"""What a Gateway serves: its own listeners and those of its ListenerSets, with their certificates.

In:   a Gateway and its ListenerSets, resolved.
Out:  EffectiveGateway. What changes about it is published as ir.GatewayDelta.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET, Struct, structs

from varnish_gateway import api, ir
from varnish_gateway.translate.gateway import gateways, listener_sets
from varnish_gateway.translate.gateway.listeners import to_wire
from varnish_gateway.translate.gateway.overlapping_tls import overlapping
from varnish_gateway.translate.gateway.policy_quota import within_quota
from varnish_gateway.translate.incremental.dependency import Table
from varnish_gateway.translate.layers import Layer
from varnish_gateway.translate.policy import cache_policy
from varnish_gateway.translate.policy.attachment import AttachmentTarget
from varnish_gateway.translate.precedence import precedence
from varnish_gateway.translate.tls import termination
from varnish_gateway.translate.tls.material import merged

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from varnish_gateway.api import Key
    from varnish_gateway.ir import wire
    from varnish_gateway.translate.gateway.listener_sets import ResolvedListenerSet
    from varnish_gateway.translate.gateway.parameters import Configured
    from varnish_gateway.translate.gateway.policy_quota import PolicyExcess
    from varnish_gateway.translate.incremental.view import View
    from varnish_gateway.translate.listener import ValidatedListener
    from varnish_gateway.translate.options import Options


class EffectiveGateway(Struct, frozen=True):
    configured: Configured
    listeners: tuple[wire.Listener, ...]
    placed: tuple[wire.Listener, ...]  # these, and those that wait for a certificate or authority
    tls: ir.Tls
    overlapping: frozenset[str]  # ids of listeners
    accepted_sets: int  # of the Gateway's ListenerSets
    policy_excess: Mapping[str, PolicyExcess]  # by the name of a policy: where it is off
    cached_by: Mapping[str, tuple[str, ...]]  # by the name of a policy: the listeners on which it is in force


def compute(key: Key, options: Options, view: View) -> EffectiveGateway | None:
    """Return what a Gateway of ours serves, its own listeners first."""
    gateway = view.get(gateways.RESOLVED, key)
    if gateway is None:
        return None
    sets = _sets_of(key, view)
    listeners = [*gateway.listeners, *(listener for each in sets for listener in each.listeners)]
    placed = [listener for listener in listeners if listener.holds_port]
    served = [listener for listener in placed if listener.is_served]
    cached, excess = within_quota(options.policies_limit, _with_policies(served, key, gateway, sets, view))
    material = merged([gateway.validated.material, *(each.validated.material for each in sets)])
    return EffectiveGateway(
        configured=gateway.validated.configured,
        listeners=cached,
        placed=tuple(map(to_wire, placed)),
        tls=termination.assemble(served, material),
        overlapping=overlapping(placed),
        accepted_sets=sum(each.rejected is None for each in sets),
        policy_excess=excess,
        cached_by=_by_policy(cached),
    )


def _with_policies(
    served: Iterable[ValidatedListener],
    key: Key,
    gateway: gateways.ResolvedGateway,
    sets: Iterable[ResolvedListenerSet],
    view: View,
) -> tuple[wire.Listener, ...]:
    """Return listeners with their cache policies: of the listener, or its ListenerSet, or the Gateway."""
    owners = {one.id: key for one in gateway.listeners}
    owners |= {one.id: each.key for each in sets for one in each.listeners}
    found = []
    for listener in served:
        owner = owners[listener.id]
        targets = dict.fromkeys(
            (AttachmentTarget(owner, listener.name), AttachmentTarget(owner), AttachmentTarget(key))
        )
        policy = cache_policy.in_force(targets, key, view)
        made = to_wire(listener)
        found.append(made if policy is None else structs.replace(made, cache=policy))
    return tuple(found)


def _by_policy(listeners: Iterable[wire.Listener]) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for one in listeners:
        if one.cache is not None and not one.cache.off:
            found.setdefault(one.cache.name, []).append(one.name)
    return {policy: tuple(names) for policy, names in found.items()}


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
