"""The cache policies of the rules of a route.

In:   a route and its translated rules.
Out:  the rules with their policies; which of them share a cache between backends with weights.
A policy of a rule counts before one of the route. Less specific ones travel with listeners, so that their change
touches no route.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, structs

from varnish_gateway.api import Key, key_of
from varnish_gateway.ir.wire import encoded_size
from varnish_gateway.translate.conditions import policy_affected
from varnish_gateway.translate.policy import attachment, cache_policy
from varnish_gateway.translate.policy.attachment import AttachmentTarget
from varnish_gateway.translate.route.regexes import ROUTE_BUDGET

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from varnish_gateway import api, ir
    from varnish_gateway.ir import wire
    from varnish_gateway.translate.incremental.view import View


class RulePolicies(Struct, frozen=True):
    """``holders`` are the policies by number of the rule. ``excess`` is why none of them can be carried out."""

    holders: Mapping[int, Key]
    affecting: tuple[tuple[Key, str], ...]  # each policy with the rule that it targets, "" for the route
    excess: str | None = None

    def affected(self, generation: int) -> Sequence[ir.Condition]:
        """Return the condition of a route that has policies."""
        return (policy_affected(cache_policy.KIND, self.affecting, generation),) if self.affecting else ()


NONE = RulePolicies({}, ())


def policies_of(route: api.HTTPRoute, view: View) -> RulePolicies:
    """Return the policies that hold a route or its rules."""
    key = key_of(route)
    whole = attachment.holder(cache_policy.KIND, AttachmentTarget(key), view)
    named = {
        rule.name: found
        for rule in route.spec.rules
        if rule.name
        and (found := attachment.holder(cache_policy.KIND, AttachmentTarget(key, rule.name), view)) is not None
    }
    if whole is None and not named:
        return NONE
    holders = ((number, named.get(rule.name or "", whole)) for number, rule in enumerate(route.spec.rules))
    affecting = [(found, name) for name, found in sorted(named.items())]
    affecting = affecting if whole is None else [(whole, ""), *affecting]
    return RulePolicies({number: found for number, found in holders if found is not None}, tuple(affecting))


def within_limits(
    policies: RulePolicies, rules: Sequence[wire.Rule], spent: int, limit: int | None, view: View
) -> RulePolicies:
    """Return the policies, with an excess where they are too much for the route.

    ``spent`` is what its own regular expressions take, ``limit`` how many bytes its rules may have.
    """
    found = {holder: view.get(cache_policy.VALIDATED, holder) for holder in policies.holders.values()}
    charge = spent + sum(one.charge for one in found.values() if one is not None)
    if charge > ROUTE_BUDGET:
        excess = (
            f"the regular expressions and globs of the route and its policies take {charge:,} bytes when compiled, "
            f"more than the budget of {ROUTE_BUDGET:,}; use fewer or simpler ones"
        )
        return structs.replace(policies, excess=excess)
    sizes = {holder: encoded_size(one.policy) for holder, one in found.items() if one is not None}
    size = encoded_size(rules) + sum(sizes.get(holder, 0) for holder in policies.holders.values())
    if limit is None or size <= limit:
        return policies
    excess = f"the rules of the route have {size:,} bytes with their policies, more than the limit of {limit:,}"
    return structs.replace(policies, excess=f"{excess}; split the route, or shorten the policies")


def with_policies(
    rules: Sequence[wire.Rule], policies: RulePolicies, gateway: Key, view: View
) -> tuple[wire.Rule, ...]:
    """Return the rules as they travel to a Gateway. A rule without backends has nothing to cache."""
    return tuple(
        structs.replace(rule, cache=_travelling(policies, number, gateway, view))
        if number in policies.holders and rule.backends
        else rule
        for number, rule in enumerate(rules)
    )


def _travelling(policies: RulePolicies, number: int, gateway: Key, view: View) -> wire.CachePolicy | None:
    found = cache_policy.on_gateway(policies.holders[number], gateway, view)
    return cache_policy.off(found) if found is not None and policies.excess else found


def is_weighted(rule: wire.Rule) -> bool:
    """Whether several backends share what is cached for a rule."""
    return len({(backend.service, backend.port) for backend in rule.backends if backend.service}) > 1


def weighted_routes_of(gateway: Key, listener: str) -> Key:
    """Return whose tally has the routes of a listener with rules of several backends and no policy of their own."""
    return Key("weighted routes", gateway.namespace, f"{gateway.name}/{listener}")


def weighted_routes(routes: Mapping[Key, wire.Route]) -> frozenset[tuple[Key, str]]:
    """Return what such a route is counted as, on each of its listeners."""
    return frozenset(
        (weighted_routes_of(gateway, attachment.listener), f"HTTPRoute {route.namespace}/{route.name}")
        for gateway, route in routes.items()
        if any(rule.cache is None and is_weighted(rule) for rule in route.rules)
        for attachment in route.attachments
    )
