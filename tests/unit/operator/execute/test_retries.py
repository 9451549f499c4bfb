"""Delays between attempts of a failing job, by who can correct the error."""

import pytest

from varnish_gateway import errors
from varnish_gateway.api import Key
from varnish_gateway.operator.execute.retries import (
    FORBIDDEN_ATTEMPTS,
    LAST_SECONDS,
    STALE_ATTEMPTS,
    STALE_SECONDS,
    NextAttempt,
    Retries,
)
from varnish_gateway.operator.plan.jobs import Job

JOB = Job("object", Key("Service", "shop", "gw-vgw"))


def failures(error: errors.GatewayError, number: int) -> list[NextAttempt]:
    retries = Retries(jitter=lambda: 1.0)
    return [retries.on_failure(JOB, error) for _ in range(number)]


@pytest.mark.parametrize("error", [errors.Unreachable("x"), errors.ApiError("x", status=500), errors.Invalid("x")])
def test_delay_doubles_up_to_a_minute(error):
    delays = [retry.delay for retry in failures(error, 12)]
    assert delays[:4] == [0.1, 0.2, 0.4, 0.8]
    assert delays[-1] == LAST_SECONDS == 60


def test_jobs_that_failed_together_are_retried_at_different_times():
    chances = iter([0.0, 1.0])
    retries = Retries(jitter=lambda: next(chances))
    jobs = [Job("routing", Key("Gateway", "shop", name)) for name in "ab"]
    assert [retries.on_failure(job, errors.Unreachable("x")).delay for job in jobs] == [0.05, 0.1]


def test_two_operators_wait_for_different_times():
    """Without an argument there is jitter."""
    one, other = (
        [retries.on_failure(JOB, errors.Unreachable("x")).delay for _ in range(5)] for retries in (Retries(), Retries())
    )
    assert one != other


def test_job_waits_as_long_as_the_api_server_asks_for():
    retries = Retries(jitter=lambda: 0.0)
    assert retries.on_failure(JOB, errors.Throttled("x", retry_after=40)).delay == 40
    assert retries.on_failure(JOB, errors.Throttled("x", retry_after=7200)).delay == LAST_SECONDS


def test_jobs_that_were_asked_to_wait_equally_long_spread_out():
    chances = iter([0.0, 0.0, 0.0, 1.0])  # of the delay, and of what was asked for
    retries = Retries(jitter=lambda: next(chances))
    jobs = [Job("routing", Key("Gateway", "shop", name)) for name in "ab"]
    throttled = errors.Throttled("x", retry_after=20)
    assert [retries.on_failure(job, throttled).delay for job in jobs] == [20, 30]


def test_success_starts_over_with_the_first_delay():
    retries = Retries(jitter=lambda: 1.0)
    for _ in range(5):
        retries.on_failure(JOB, errors.Unreachable("x"))
    retries.on_success(JOB)
    assert retries.on_failure(JOB, errors.Unreachable("x")).delay == 0.1


def test_stale_write_is_retried_at_once_for_a_while():
    retries = failures(errors.Conflict("x"), STALE_ATTEMPTS + 1)
    assert retries[0] == NextAttempt(STALE_SECONDS, is_stale=True)
    assert [retry.is_stale for retry in retries] == [True] * STALE_ATTEMPTS + [False]
    assert retries[-1].delay == 0.1, "and then with growing delays"


def test_first_forbidden_attempts_are_not_reported():
    reported = [retry.is_rejection for retry in failures(errors.Forbidden("x"), FORBIDDEN_ATTEMPTS)]
    assert reported == [False] * (FORBIDDEN_ATTEMPTS - 1) + [True]


def test_field_conflict_is_reported_at_once():
    assert failures(errors.FieldConflict("x"), 1)[0].is_rejection
