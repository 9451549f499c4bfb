"""Report how VarnishCachePolicies fare.

In:   a policy, validated and placed.
Out:  its status, with one ancestor for each of its Gateways.
"""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING

from varnish_gateway import api, ir
from varnish_gateway.translate.conditions import (
    SHOWN,
    Problem,
    first_of,
    listed,
    pending_patterns,
    policy_off,
    weighted_backends,
)
from varnish_gateway.translate.gateway.effective_gateway import EFFECTIVE
from varnish_gateway.translate.incremental.dependency import Table
from varnish_gateway.translate.layers import Layer
from varnish_gateway.translate.policy import attachment
from varnish_gateway.translate.policy.cache_policy import KIND, OFF, VALIDATED
from varnish_gateway.translate.policy.cache_policy_placement import PLACED
from varnish_gateway.translate.route.http_route import ROUTES
from varnish_gateway.translate.route.rule_policies import is_weighted, weighted_routes_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from varnish_gateway.api import Key
    from varnish_gateway.translate.gateway.policy_quota import PolicyExcess
    from varnish_gateway.translate.incremental.view import View
    from varnish_gateway.translate.options import Options
    from varnish_gateway.translate.policy.attachment import AttachmentTarget
    from varnish_gateway.translate.policy.cache_policy import ValidatedCachePolicy


def resolve(key: Key, options: Options, view: View) -> ir.PolicyStatus | None:
    """Return the status of a policy; None where its target is none of ours."""
    policy, placed = view.get(VALIDATED, key), view.get(PLACED, key)
    if policy is None or placed is None:
        return None
    gateways = placed.placement.gateways
    if policy.target is None:
        ref = attachment.ancestor(key)
        return _status([_itself(ref)], [policy.problem], (), policy, options)
    problem = placed.placement.problem or attachment.conflict(key, policy.target, view) or policy.problem
    if not gateways:
        ref = attachment.ancestor(policy.target.object, policy.target.section)
        return _status([ref], [problem], (), policy, options)
    if policy.is_pending and problem is None:
        condition = pending_patterns(policy.generation, is_attached=policy.uncompiled is not None)
        ancestors = (ir.AncestorStatus(attachment.ancestor(one), options.controller, (condition,)) for one in gateways)
        return ir.PolicyStatus(tuple(ancestors))
    problems = [problem or _excess(key, policy, gateway, view) for gateway in gateways]
    notices = () if problem else _notices(policy.target, policy, gateways, view)
    return _status([attachment.ancestor(one) for one in gateways], problems, notices, policy, options)


def _status(
    ancestors: Sequence[ir.ParentRef],
    problems: Sequence[Problem | None],
    notices: Sequence[ir.Condition],
    policy: ValidatedCachePolicy,
    options: Options,
) -> ir.PolicyStatus:
    return attachment.status(ancestors, problems, notices, policy.generation, options.controller)


def _itself(ref: ir.ParentRef) -> ir.ParentRef:
    """Return a policy as its own ancestor: its targetRef names nothing that could be one."""
    return ir.ParentRef(api.varnish.GROUP, ref.kind, ref.name, ref.namespace)


def _excess(key: Key, policy: ValidatedCachePolicy, gateway: Key, view: View) -> Problem | None:
    """Return a problem where a Gateway, or the target, has too much of policies."""
    limit = view.quota_exceeded(gateway, key) if policy.charge else None
    if limit is not None:
        message = (
            f"its regular expressions and globs take {policy.charge:,} bytes when compiled; with those of older routes "
            f"and policies of the namespace {key.namespace} that is more than the {limit:,} bytes that a namespace has "
            f"on {gateway}; use fewer or simpler ones{OFF}"
        )
        return Problem("Invalid", message)
    target = policy.target
    if target is not None and target.object.kind == api.HTTPRoute.kind:
        route = view.get(ROUTES, target.object)
        excess = route.policy_excess if route is not None else None
    else:
        off = _off_listeners(policy, gateway, view)
        excess = off.message if off is not None and off.is_everywhere else None
    return None if excess is None else Problem("Invalid", excess + OFF)


def _off_listeners(policy: ValidatedCachePolicy, gateway: Key, view: View) -> PolicyExcess | None:
    effective = view.get(EFFECTIVE, gateway)
    return effective.policy_excess.get(policy.policy.name) if effective is not None else None


def _notices(
    target: AttachmentTarget, policy: ValidatedCachePolicy, gateways: Sequence[Key], view: View
) -> Sequence[ir.Condition]:
    """Return conditions where backends with weights share what is cached, and where listeners can't carry a policy."""
    if target.object.kind == api.HTTPRoute.kind:
        where = listed(_weighted_rules(target.object, policy.policy.name, view), ", ")
        return (weighted_backends(where, policy.generation),) if where else ()
    found = []
    for gateway in gateways:
        if (where := first_of(_weighted_routes(policy.policy.name, gateway, view))) != "":
            found.append(weighted_backends(where, policy.generation))
        off = _off_listeners(policy, gateway, view)
        if off is not None and not off.is_everywhere:
            found.append(policy_off(f"the listeners {first_of(off.listeners)}", off.message, policy.generation))
    return found


def _weighted_routes(policy: str, gateway: Key, view: View) -> list[str]:
    """Return the first routes with weighted backends that a policy of listeners is in force for."""
    effective = view.get(EFFECTIVE, gateway)
    listeners = effective.cached_by.get(policy, ()) if effective is not None else ()
    return nsmallest(SHOWN + 1, {name for one in listeners for name in view.tally(weighted_routes_of(gateway, one))})


def _weighted_rules(route: Key, policy: str, view: View) -> list[str]:
    translated = view.get(ROUTES, route)
    routes = () if translated is None else tuple(translated.routes.values())[:1]
    return [
        f"rule {number} of {route}"
        for one in routes
        for number, rule in enumerate(one.rules)
        if rule.cache is not None and rule.cache.name == policy and is_weighted(rule)
    ]


STATUSES: Table[ir.PolicyStatus] = Table("status of a VarnishCachePolicy")
RESOLVE = Layer(table=STATUSES, kinds=(KIND,), compute=resolve, status=lambda status: status)
