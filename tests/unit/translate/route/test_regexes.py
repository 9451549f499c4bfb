import pytest

from varnish_gateway.translate.route import regexes
from varnish_gateway.translate.route.regexes import ROUTE_BUDGET, RegexBudget, why_invalid


def test_valid_pattern_has_no_problem():
    assert why_invalid("/v[0-9]+(/.*)?") is None


def test_invalid_pattern_has_a_reason():
    assert "unclosed group" in (why_invalid("/(a") or "")


def test_unsupported_regex_syntax_is_rejected():
    assert why_invalid("(a)\\1") is not None
    assert why_invalid("(?=a)") is not None


def test_long_pattern_is_quoted_by_its_beginning():
    why = why_invalid("(" + "a" * 3000) or ""
    assert why.startswith('"(' + "a" * 78 + '…" is not a regular expression: unclosed group')
    too_large = why_invalid("(a{1000}){1000}" + "b" * 3000) or ""
    assert '"(a{1000}){1000}bbb' in too_large
    assert len(too_large) < 250


def test_distinct_patterns_of_a_route_share_a_budget():
    budget = RegexBudget()
    for _ in range(1000):
        assert budget.why_invalid("/api/v[0-9]+") is None
    assert budget.excess is None
    for number in range(1000):
        budget.why_invalid(f"/api/v[0-9]+/{number}")
    assert f"more than the budget of {ROUTE_BUDGET:,}; use fewer or simpler ones, or split" in (budget.excess or "")


def test_patterns_beyond_the_budget_are_not_compiled(monkeypatch: pytest.MonkeyPatch):
    compiled: list[str] = []

    def half_of_the_budget(pattern: str) -> tuple[int, None]:
        compiled.append(pattern)
        return ROUTE_BUDGET // 2, None

    monkeypatch.setattr(regexes, "_compiled", half_of_the_budget)
    budget = RegexBudget()
    for pattern in "abcdef":
        budget.why_invalid(pattern)
    assert compiled == ["a", "b", "c"]
    assert "the first 3 of its" in (budget.excess or "")
