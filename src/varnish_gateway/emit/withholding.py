"""Routing for pods that don't understand all of the wire format.

In:   a route, listeners or request rules, and the capabilities that a pod lacks.
Out:  the same, expressed without them.
Pure. What can't be expressed is left out, and only where no request reaches a backend that the user did
not choose. Whatever is unaffected is returned as it is, the very same object.
"""

from collections.abc import Callable, Collection, Mapping

from msgspec import structs

from varnish_gateway.ir import wire
from varnish_gateway.ir.capabilities import (
    APPROXIMATE_RULES,
    CACHE_POLICIES,
    CAPABILITIES,
    MANY_RETRIES,
    PREVIOUS_ATTEMPTS,
    REQUEST_RULES,
)

Expression = Callable[[wire.Route], wire.Route]


def route_without(route: wire.Route, lacking: Collection[str]) -> wire.Route:
    """Return a route as pods without these capabilities read it."""
    for name in lacking:
        if name in ROUTES:
            route = ROUTES[name](route)
    return route


def needed_by(route: wire.Route, among: Collection[str]) -> frozenset[str]:
    """Return the capabilities that a route makes use of."""
    return frozenset(name for name in among if name in ROUTES and ROUTES[name](route) is not route)


def needed_by_requests(rules: wire.RequestRules, among: Collection[str]) -> frozenset[str]:
    """Return the capabilities that request rules make use of."""
    used = {_wire_name(one) for one in structs.fields(rules) if getattr(rules, one.name) != one.default}
    return frozenset(name for name in among if used.intersection(CAPABILITIES[name].fields))


def listeners_without(listeners: tuple[wire.Listener, ...], lacking: Collection[str]) -> tuple[wire.Listener, ...]:
    """Return listeners as pods without these capabilities read them."""
    if CACHE_POLICIES.name not in lacking or all(one.cache is None for one in listeners):
        return listeners
    return tuple(one if one.cache is None else structs.replace(one, cache=None) for one in listeners)


def requests_without(rules: wire.RequestRules | None, lacking: Collection[str]) -> wire.RequestRules | None:
    """Return request rules as pods without these capabilities read them; None stays None."""
    if rules is None or not lacking:
        return rules
    if REQUEST_RULES.name in lacking:
        return wire.RequestRules()
    guarded = {field for name in lacking for field in CAPABILITIES[name].fields}
    absent = {one.name: one.default for one in structs.fields(rules) if _wire_name(one) in guarded}
    return structs.replace(rules, **absent)


def _wire_name(field: structs.FieldInfo) -> str:
    """Return a field of the request rules as capabilities name it."""
    return f"{wire.RequestRules.__name__}.{field.encode_name}"


def _valid_first(route: wire.Route) -> wire.Route:
    """Put approximate rules last, as the previous operator did: on a tie the first rule serves.

    Their regexes rank below every other path: in pods of the previous version as every regex does, and in
    later ones because the rule has the status 500.
    """
    left = [structs.replace(rule, approximate=False) for rule in route.rules if rule.approximate]
    if not left:
        return route
    return structs.replace(route, rules=(*(rule for rule in route.rules if not rule.approximate), *left))


def _few_retries(route: wire.Route) -> wire.Route:
    if not any(rule.retry is not None and rule.retry.attempts > PREVIOUS_ATTEMPTS for rule in route.rules):
        return route
    return structs.replace(route, rules=tuple(map(_with_few_retries, route.rules)))


def _with_few_retries(rule: wire.Rule) -> wire.Rule:
    if rule.retry is None or rule.retry.attempts <= PREVIOUS_ATTEMPTS:
        return rule
    return structs.replace(rule, retry=structs.replace(rule.retry, attempts=PREVIOUS_ATTEMPTS))


def _uncached(route: wire.Route) -> wire.Route:
    """Leave out cache policies: the gateway caches nothing without one."""
    if all(rule.cache is None for rule in route.rules):
        return route
    return structs.replace(route, rules=tuple(structs.replace(rule, cache=None) for rule in route.rules))


ROUTES: Mapping[str, Expression] = {
    APPROXIMATE_RULES.name: _valid_first,
    MANY_RETRIES.name: _few_retries,
    CACHE_POLICIES.name: _uncached,
}
"""How routes are expressed without a capability, by its name."""
