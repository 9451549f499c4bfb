import pytest

from support.builders.objects import route
from varnish_gateway.ir import wire
from varnish_gateway.translate.conditions import Problem
from varnish_gateway.translate.route.retries import translate_retry


def translate(**retry) -> tuple[wire.Retry | None, list[Problem]]:
    problems: list[Problem] = []
    return translate_retry(route(rules=[{"retry": retry}]).spec.rules[0].retry, problems), problems


def test_rule_without_retries_has_none():
    assert translate_retry(None, []) is None


def test_codes_are_sorted_and_backoff_is_milliseconds():
    got = translate(codes=[503, 500, 503], attempts=3, backoff="100ms")
    assert got == (wire.Retry(codes=(500, 503), attempts=3, backoff=100), [])


def test_absent_fields_have_defaults():
    assert translate() == (wire.Retry(), [])


def test_backoff_of_zero_is_kept():
    assert translate(backoff="0s") == (wire.Retry(backoff=0), [])


@pytest.mark.parametrize("attempts", [0, 1, 21, 1000, 2**31 - 1])
def test_any_number_of_attempts_is_accepted(attempts: int):
    assert translate(attempts=attempts) == (wire.Retry(attempts=attempts), [])


def test_attempts_beyond_the_wire_format_are_as_many_as_it_holds():
    assert translate(attempts=2**40) == (wire.Retry(attempts=2**31 - 1), [])


@pytest.mark.parametrize(
    ("retry", "named"),
    [
        ({"backoff": "x"}, "retry.backoff"),
        ({"backoff": "31s"}, "30s at most"),
        ({"attempts": -1}, "retry.attempts is -1; use 0"),
        ({"codes": [200, 500]}, "retry.codes has 200"),
    ],
)
def test_invalid_retry_is_named(retry: dict, named: str):
    _, (problem,) = translate(**retry)
    assert problem.reason == "UnsupportedValue"
    assert named in problem.message
