import msgspec
import pytest

from support.builders.objects import route
from varnish_gateway.ir import wire
from varnish_gateway.translate.conditions import Problem
from varnish_gateway.translate.route.timeouts import translate_timeouts


def translate(**timeouts) -> tuple[wire.Timeouts | None, list[Problem]]:
    problems: list[Problem] = []
    return translate_timeouts(route(rules=[{"timeouts": timeouts}]).spec.rules[0].timeouts, problems), problems


def test_rule_without_timeouts_has_none():
    assert translate_timeouts(None, []) is None


def test_timeouts_are_milliseconds():
    got = translate(request="10s", backendRequest="1s500ms")
    assert got == (wire.Timeouts(request=10_000, backend_request=1500), [])


def test_empty_timeouts_are_absent_from_the_wire():
    assert translate() == (None, [])


@pytest.mark.parametrize(
    ("timeouts", "on_the_wire"),
    [
        ({"request": "0s"}, b'{"request":0}'),
        ({"backendRequest": "0ms"}, b'{"backendRequest":0}'),
        ({"request": "0s", "backendRequest": "1s"}, b'{"request":0,"backendRequest":1000}'),
        ({"request": "1s", "backendRequest": "0s"}, b'{"request":1000,"backendRequest":0}'),
    ],
)
def test_zero_is_no_limit_and_not_absent(timeouts: dict, on_the_wire: bytes):
    got, problems = translate(**timeouts)
    assert not problems
    assert msgspec.json.encode(got) == on_the_wire


@pytest.mark.parametrize(
    ("timeouts", "named"),
    [
        ({"request": "10"}, "timeouts.request"),
        ({"backendRequest": "1.5s"}, "timeouts.backendRequest"),
        ({"request": "1s", "backendRequest": "2s"}, "longer than timeouts.request"),
    ],
)
def test_invalid_timeout_is_named(timeouts: dict, named: str):
    _, (problem,) = translate(**timeouts)
    assert problem.reason == "UnsupportedValue"
    assert named in problem.message
