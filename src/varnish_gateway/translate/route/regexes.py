"""Whether the regular expressions of a route compile, according to the engine that will run them.

Compiling takes time and memory here and in every gateway pod, and tenants write the patterns. So a
route has a budget: each distinct pattern has a charge, which ghost determines, and beyond the budget
no more patterns are compiled. ghost enforces the same budget.
"""

from functools import lru_cache

from varnish_gateway._ghost import compile_regex, route_regex_budget

QUOTED = 80
"""So many characters of a pattern are quoted in a message, enough to recognise it."""
ROUTE_BUDGET = route_regex_budget()


def why_invalid(pattern: str) -> str | None:
    """Return what is wrong with a pattern, or None."""
    return _compiled(pattern)[1]


class RegexBudget:
    """What the regular expressions of one route have taken."""

    def __init__(self) -> None:
        self.charges: dict[str, int] = {}  # of each distinct pattern that was compiled
        self._spent = 0

    def why_invalid(self, pattern: str) -> str | None:
        """Return what is wrong with a pattern, or None. Beyond the budget patterns are not looked at."""
        if self._spent > ROUTE_BUDGET:
            return None
        charge, why = _compiled(pattern)
        if pattern not in self.charges:
            self.charges[pattern] = charge
            self._spent += charge
        return why

    @property
    def excess(self) -> str | None:
        """What to tell the user, where the budget is exceeded."""
        if self._spent <= ROUTE_BUDGET:
            return None
        count = f"the first {len(self.charges):,} of its" if len(self.charges) > 1 else "one of its"
        return (
            f"{count} regular expressions take {self._spent:,} bytes when compiled, more than the budget of "
            f"{ROUTE_BUDGET:,}; use fewer or simpler ones, or split the route"
        )


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> tuple[int, str | None]:
    """Return the charge of a pattern, and what is wrong with it."""
    charge, why = compile_regex(pattern)
    if why is not None and len(pattern) > QUOTED:
        why = why.replace(pattern, pattern[: QUOTED - 1] + "…")
    return charge, why
