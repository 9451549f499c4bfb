"""The gateway against a model of RFC 9111 that was written from its text, with a clock that the test moves."""

import itertools
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from support.cache_model.cache import SAFE_METHODS
from support.cache_model.messages import Request, Response
from support.cache_model.policy import Policy
from support.cache_model.sequences import Event, events
from support.directories import open_directory
from support.http.client import Answer
from support.http.planned_origin import PlannedOrigin
from support.varnish.cache_comparison import GatewayComparison
from support.varnish.ghost import Config, GhostHarness, backend, route, to
from support.varnish.stepped_clock import SteppedClock
from varnish_gateway.ir import wire

SEQUENCES = 400
IS_RANDOM = "RANDOM_SEQUENCES" in os.environ
"""By default the sequences are the same in every run: a change elsewhere can't fail by chance."""
POLICIES = [
    Policy(default_ttl=10_000),
    Policy(default_ttl=60_000, grace=10_000),
    Policy(default_ttl=60_000, grace=0, stale_if_error=30_000),
    Policy(default_ttl=10_000, stale_while_revalidate=30_000, stale_if_error=120_000),
    Policy(default_ttl=10_000, stale_while_revalidate=10_000, keep=30_000),
    Policy(default_ttl=10_000, stale_if_error=10_000, keep=0),
    Policy(forced_ttl=10_000, grace=10_000),
    Policy(forced_ttl=60_000, stale_if_error=120_000),
]


class Laboratory(NamedTuple):
    gateway: GhostHarness
    origin: PlannedOrigin
    clock: SteppedClock
    numbers: Iterator[int]


def _route(number: int, policy: Policy) -> wire.Route:
    cache = wire.CachePolicy(
        default_ttl=policy.default_ttl,
        forced_ttl=policy.forced_ttl,
        grace=policy.grace,
        stale_while_revalidate=policy.stale_while_revalidate,
        stale_if_error=policy.stale_if_error,
        keep=policy.keep,
        hit_for_miss=1,  # while the marker lives, it hides stale responses
    )
    return route(f"policy-{number}", to(backend("pool"), cache=cache), hosts=[f"*.policy-{number}.example"])


@pytest.fixture(scope="module")
def laboratory() -> Iterator[Laboratory]:
    routes = [_route(number, policy) for number, policy in enumerate(POLICIES)]
    with open_directory() as directory, PlannedOrigin() as origin:
        clock = SteppedClock(directory)
        config = Config(routes, {"pool": [origin.endpoint]})
        with GhostHarness(config, environment=clock.environment) as gateway:
            yield Laboratory(gateway, origin, clock, itertools.count())


def _as_implemented(event: Event) -> Event:
    """Leave out what the gateway does in another way.

    It compares If-Modified-Since with the time at which a response was generated instead of that at which it arrived,
    and answers only-if-cached also in place of an unsafe request.
    """
    safe = event.request.method in SAFE_METHODS
    headers = tuple(
        (name, value)
        for name, value in event.request.headers
        if (name, value) != ("If-Modified-Since", "@0") and (safe or "only-if-cached" not in value)
    )
    return replace(event, request=replace(event.request, headers=headers))


@settings(
    max_examples=SEQUENCES,
    derandomize=not IS_RANDOM,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.generate],  # a sequence doesn't repeat: its objects stay in the cache
)
@given(
    number=st.sampled_from(range(len(POLICIES))),
    sequence=st.lists(events.map(_as_implemented), min_size=1, max_size=8),
)
def test_gateway_does_what_the_rfc_allows(laboratory: Laboratory, number: int, sequence: list[Event]) -> None:
    gateway, origin, clock, numbers = laboratory
    host = f"s{next(numbers)}.policy-{number}.example"
    comparison = GatewayComparison(gateway, origin, clock, POLICIES[number], host)
    for event in sequence:
        comparison.run(event)


@pytest.mark.parametrize("real", [False, True])
def test_response_becomes_stale_by_either_clock(laboratory: Laboratory, *, real: bool) -> None:
    gateway, origin, clock, _ = laboratory
    bodies = itertools.count()
    headers = (("Cache-Control", "max-age=2"),)

    def plan(_: Request) -> Response:
        return Response(headers=headers, body=f"body-{next(bodies)}")

    def wait(milliseconds: int) -> None:
        # This one test has to see real time pass.
        time.sleep(milliseconds / 1000) if real else clock.advance(milliseconds)

    def ask() -> Answer:
        answer = gateway.get("/", host=f"real-{real}.policy-0.example")
        origin.idle()
        return answer

    origin.planner = plan
    found = []
    for pause in (0, 1200, 1200, 1200):
        wait(pause)
        answer = ask()
        found.append((answer.header("x-body"), answer.header("age")))
    assert found == [("body-0", "0"), ("body-0", "1"), ("body-1", "0"), ("body-1", "1")]
