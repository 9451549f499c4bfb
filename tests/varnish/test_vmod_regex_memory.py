"""What the regular expressions of one namespace cost varnishd in memory.

The operator bounds them by charges in bytes: 1 MiB for a route, 16 MiB for a namespace on a Gateway. That bounds
varnishd's memory only if the memory follows the charge, for large patterns and for small ones.
"""

from collections.abc import Callable, Sequence
from itertools import count

import pytest

from support.varnish.ghost import Config, GhostHarness, route
from varnish_gateway._ghost import compile_regex
from varnish_gateway.ir import wire
from varnish_gateway.translate.options import Options
from varnish_gateway.translate.route.regexes import ROUTE_BUDGET

FACTOR = 2
"""varnishd's memory grows by at most so many times the budget.

Measured: 1.2 for small patterns, 0.6 for tables, 0.2 for simulated ones."""

PATTERNS: dict[str, Callable[[int], str]] = {
    "small": lambda n: f"b{n:05}.*",
    "tables": lambda n: f"{'q' * 80}|(?:a|b)*a(?:a|b){{11}}x{n:05}",
    "simulated": lambda n: f".*a[a-z]{{15}}-{n:05}",
}


def routes_within_the_budget(pattern: Callable[[int], str], budget: int) -> tuple[list[wire.Route], int]:
    """Return routes with as many patterns as their namespace may have, and what these are charged."""
    routes: list[list[str]] = [[]]
    spent, of_route = 0, 0
    for number in count():
        charge, fault = compile_regex(pattern(number))
        assert fault is None
        if spent + charge > budget:
            break
        if of_route + charge > ROUTE_BUDGET:
            routes.append([])
            of_route = 0
        routes[-1].append(pattern(number))
        spent, of_route = spent + charge, of_route + charge
    return [_route(number, patterns) for number, patterns in enumerate(routes)], spent


def _route(number: int, patterns: Sequence[str]) -> wire.Route:
    values = (wire.ValueMatch(name="x", value=pattern, type="regex") for pattern in patterns)
    matches = tuple(wire.Match(headers=(value,)) for value in values)
    return route(f"regexes-{number}", wire.Rule(matches=matches, status=500))


@pytest.mark.parametrize("kind", PATTERNS)
def test_memory_is_bounded_by_the_charge_of_a_namespace(kind):
    routes, charge = routes_within_the_budget(PATTERNS[kind], Options().namespace_regexes)
    assert charge > 0.9 * Options().namespace_regexes
    with GhostHarness(Config()) as ghost:
        assert ghost.get().status == 404
        before = ghost.resident_bytes
        assert ghost.reload(Config(routes)).json["routes"] == len(routes)
        assert ghost.get(headers=[("x", "-")]).status in (404, 431)  # simulated patterns get their memory when tried
        grown = ghost.resident_bytes - before
    assert grown < FACTOR * Options().namespace_regexes
