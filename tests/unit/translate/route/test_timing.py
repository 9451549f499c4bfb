import msgspec
import pytest

from support.builders.objects import route
from varnish_gateway.ir import wire
from varnish_gateway.translate.route.timing import NOTHING, Timing, translate_timing


def translate(**rule) -> Timing:
    return translate_timing(route(rules=[rule]).spec.rules[0])


def message(timing: Timing) -> str:
    (problem,) = timing.problems
    assert problem.reason == "UnsupportedValue"
    return problem.message


def test_nothing_asked_for():
    assert translate() is NOTHING


def test_time_outs():
    got = translate(timeouts={"request": "10s", "backendRequest": "1s500ms"})
    assert got == Timing(wire.Timeouts(request=10_000, backend_request=1500))


def test_nothing_said_is_nothing_on_the_wire():
    assert translate(timeouts={}) == NOTHING


@pytest.mark.parametrize(
    ("timeouts", "on_the_wire"),
    [
        ({"request": "0s"}, b'{"request":0}'),
        ({"backendRequest": "0ms"}, b'{"backendRequest":0}'),
        ({"request": "0s", "backendRequest": "1s"}, b'{"request":0,"backendRequest":1000}'),
        ({"request": "1s", "backendRequest": "0s"}, b'{"request":1000,"backendRequest":0}'),
    ],
)
def test_no_limit_is_not_the_same_as_nothing_said(timeouts: dict, on_the_wire: bytes):
    got = translate(timeouts=timeouts)
    assert not got.problems
    assert msgspec.json.encode(got.timeouts) == on_the_wire


def test_retries():
    got = translate(retry={"codes": [503, 500, 503], "attempts": 3, "backoff": "100ms"})
    assert got == Timing(None, wire.Retry(codes=(500, 503), attempts=3, backoff=100))
    assert translate(retry={}).retry == wire.Retry()
    assert translate(retry={"backoff": "0s"}).retry.backoff == 0


@pytest.mark.parametrize(
    ("rule", "named"),
    [
        ({"timeouts": {"request": "10"}}, "timeouts.request"),
        ({"timeouts": {"backendRequest": "1.5s"}}, "timeouts.backendRequest"),
        ({"timeouts": {"request": "1s", "backendRequest": "2s"}}, "longer than timeouts.request"),
        ({"retry": {"backoff": "x"}}, "retry.backoff"),
        ({"retry": {"backoff": "31s"}}, "30s at most"),
        ({"retry": {"attempts": 21}}, "1 to 20"),
        ({"retry": {"attempts": 0}}, "1 to 20"),
        ({"retry": {"codes": [200, 500]}}, "retry.codes has 200"),
    ],
)
def test_what_can_not_be_done_is_named(rule: dict, named: str):
    assert named in message(translate(**rule))
