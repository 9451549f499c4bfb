import pytest

from unit.translate.objects import route
from varnish_gateway.ir import wire
from varnish_gateway.translate.timing import NOTHING, Timing, translate_timing


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


@pytest.mark.parametrize("timeouts", [{}, {"request": "0s"}, {"request": "0s", "backendRequest": "0ms"}])
def test_no_limit_is_nothing_on_the_wire(timeouts: dict):
    assert translate(timeouts=timeouts) == NOTHING


def test_an_attempt_may_be_limited_where_the_request_is_not():
    assert translate(timeouts={"request": "0s", "backendRequest": "1s"}).timeouts == wire.Timeouts(backend_request=1000)


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
