"""Translate the matches of a whole route, and compile its regular expressions.

In:   the rules of one route.
Out:  CompiledMatches, which are an object like any other: an input of translation.

Pure, and a function of the matches alone. Compiling what a route's budget allows takes up to a tenth of a second.
So a program with an event loop compiles on a thread and adds the result to its objects; see versions.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct, field

from varnish_gateway.api import HTTPRoute, Object
from varnish_gateway.api.meta import Metadata
from varnish_gateway.ir import wire
from varnish_gateway.translate.route.matches import EVERYTHING, REGEX, regexes_of, translate_matches
from varnish_gateway.translate.route.regexes import RegexBudget

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from varnish_gateway.api.gateway_networking import RouteMatch
    from varnish_gateway.translate.conditions import Problem


class RuleMatches(Struct, frozen=True):
    """The matches of one rule, and what is wrong with them."""

    matches: tuple[wire.Match, ...]
    faults: tuple[Problem, ...] = ()


class CompiledMatches(Object, frozen=True):
    """Of the route with this name, by rule. ``sources`` are the matches as the user wrote them.

    ``charges`` are those of the distinct patterns that ghost compiles. ``excess`` is why they are too much for one
    route; then it has no matches.
    """

    kind: ClassVar[str] = "CompiledMatches"
    sources: tuple[tuple[RouteMatch, ...], ...]
    rules: tuple[RuleMatches, ...]
    charges: Mapping[str, int] = field(default_factory=dict)
    excess: str | None = None

    def are_of(self, route: HTTPRoute) -> bool:
        """Whether they are those of this version of the route."""
        return self.sources == _sources(route)


def has_regexes(route: HTTPRoute) -> bool:
    return any(
        match.path.type == REGEX or any(value.type == REGEX for value in (*match.headers, *match.query_params))
        for rule in route.spec.rules
        for match in rule.matches
    )


def compile_matches(route: HTTPRoute) -> CompiledMatches:
    """Translate the matches of a route. Beyond its budget no more patterns are compiled."""
    budget = RegexBudget()
    rules = tuple(_translated(route, budget))
    if any(rule.faults for rule in rules) and budget.excess is None:
        budget = _charged(match for rule in rules for match in rule.matches)
    if budget.excess is not None:
        rules = (RuleMatches(EVERYTHING),) * len(rules)
    return CompiledMatches(
        metadata=_named(route), sources=_sources(route), rules=rules, charges=budget.charges, excess=budget.excess
    )


def unchecked_matches(route: HTTPRoute) -> CompiledMatches:
    """Translate the matches of a route that isn't served: its patterns are not compiled."""
    rules = tuple(RuleMatches(translate_matches(rule.matches, _unchecked)[0]) for rule in route.spec.rules)
    return CompiledMatches(metadata=_named(route), sources=_sources(route), rules=rules)


def _translated(route: HTTPRoute, budget: RegexBudget) -> Iterator[RuleMatches]:
    for rule in route.spec.rules:
        matches, faults = translate_matches(rule.matches, budget.why_invalid)
        yield RuleMatches(matches, tuple(faults))


def _charged(matches: Iterable[wire.Match]) -> RegexBudget:
    """Return what ghost will be charged, where other patterns stand for invalid ones."""
    budget = RegexBudget()
    for pattern in regexes_of(matches):
        budget.why_invalid(pattern)
    return budget


def _unchecked(_: str) -> None:
    return None


def _sources(route: HTTPRoute) -> tuple[tuple[RouteMatch, ...], ...]:
    return tuple(rule.matches for rule in route.spec.rules)


def _named(route: HTTPRoute) -> Metadata:
    return Metadata(name=route.metadata.name, namespace=route.metadata.namespace)
