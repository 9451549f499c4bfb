import pytest

from support.builders.objects import route
from varnish_gateway.ir import wire
from varnish_gateway.translate.conditions import Problem
from varnish_gateway.translate.route.matches import translate_matches
from varnish_gateway.translate.route.regexes import why_invalid


def translate(*matches: dict) -> tuple[tuple[wire.Match, ...], list[Problem]]:
    return translate_matches(route(rules=[{"matches": matches}]).spec.rules[0].matches)


def path_of(path: dict) -> wire.PathMatch:
    ((match,), _) = translate({"path": path})
    return match.path


def test_no_matches_match_everything():
    assert translate() == ((wire.Match(),), [])


def test_an_empty_match_matches_everything():
    assert translate({}) == ((wire.Match(),), [])


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ({"type": "PathPrefix", "value": "/"}, ("prefix", "/")),
        ({"type": "PathPrefix", "value": "/a/"}, ("prefix", "/a")),
        ({"value": "/a"}, ("prefix", "/a")),
        ({"type": "Exact", "value": "/a/"}, ("exact", "/a/")),
        ({"type": "RegularExpression", "value": "/a.*"}, ("regex", "/a.*")),
    ],
    ids=str,
)
def test_path_types_are_translated(path: dict, expected: tuple[str, str]):
    got = path_of(path)
    assert (got.type, got.value) == expected


def test_header_names_are_lower_case_and_the_first_counts():
    ((match,), problems) = translate(
        {"headers": [{"name": "X-A", "value": "1"}, {"name": "x-a", "value": "2"}, {"name": "b", "value": "3"}]}
    )
    assert [(each.name, each.value) for each in match.headers] == [("x-a", "1"), ("b", "3")]
    assert problems == []


def test_query_names_keep_their_case_and_the_first_counts():
    params = [{"name": "A", "value": "1"}, {"name": "a", "value": "2"}, {"name": "a", "value": "3"}]
    ((match,), _) = translate({"queryParams": params})
    assert [(each.name, each.value) for each in match.query] == [("A", "1"), ("a", "2")]


def test_a_bad_regex_is_a_problem_that_names_its_place():
    _, problems = translate(
        {"path": {"type": "RegularExpression", "value": "("}},
        {"headers": [{"name": "x-a", "type": "RegularExpression", "value": "["}]},
        {"queryParams": [{"name": "q", "type": "RegularExpression", "value": "+"}]},
    )
    assert [problem.reason for problem in problems] == ["UnsupportedValue"] * 3
    assert [problem.message.split(":")[0] for problem in problems] == ["path", "header x-a", "query parameter q"]


def test_invalid_condition_still_requires_its_header_or_parameter():
    headers = [{"name": "a", "type": "RegularExpression", "value": "["}, {"name": "b", "value": "1"}]
    params = [{"name": "q", "type": "Glob", "value": "*"}]
    ((match,), _) = translate({"path": {"value": "/x"}, "method": "GET", "headers": headers, "queryParams": params})
    assert match == wire.Match(
        path=wire.PathMatch(type="prefix", value="/x"),
        method="GET",
        headers=(
            wire.ValueMatch(name="a", value="(?s).*", type="regex"),
            wire.ValueMatch(name="b", value="1"),
        ),
        query=(wire.ValueMatch(name="q", value="(?s).*", type="regex"),),
    )
    assert why_invalid("(?s).*") is None


def test_a_method_that_we_do_not_know_is_still_asked_for():
    ((match,), _) = translate({"method": "BREW"})
    assert match.method == "BREW"


@pytest.mark.parametrize(
    ("broken", "left"),
    [
        ("/admin/(users", "/admin/.*"),
        ("^/v1/[", "/v1/.*"),
        ("/ab*(", "/a.*"),
        ("/a.b(", "/a.*"),
        ("/a-b(", "/a\\-b.*"),
        ("/a|/b(", ".*"),
        ("(", ".*"),
        ("(?i)/a[", ".*"),
    ],
)
def test_invalid_path_regex_matches_its_literal_beginning(broken: str, left: str):
    assert path_of({"type": "RegularExpression", "value": broken}) == wire.PathMatch(type="regex", value=left)
    assert why_invalid(left) is None


@pytest.mark.parametrize(
    "match",
    [
        {"method": "BREW"},
        {"path": {"type": "Glob", "value": "/*"}},
        {"headers": [{"name": "a", "type": "Glob", "value": "*"}]},
        {"queryParams": [{"name": "a", "type": "Glob", "value": "*"}]},
    ],
    ids=str,
)
def test_values_that_we_do_not_know_are_problems(match: dict):
    _, problems = translate(match)
    assert [problem.reason for problem in problems] == ["UnsupportedValue"]
