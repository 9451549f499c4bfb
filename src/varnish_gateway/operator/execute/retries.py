"""When to run a failed job again.

In:   the job and its error.
Out:  the delay, and how often the job has failed since it last succeeded.
Pure but for chance. The delay grows to a minute while a job keeps failing. Jobs that failed together spread out.
"""

import random
from collections.abc import Callable
from typing import NamedTuple

from msgspec import Struct

from varnish_gateway import errors
from varnish_gateway.operator.plan.jobs import Job
from varnish_gateway.runtime.backoff import Backoff

FIRST_SECONDS, LAST_SECONDS = 0.1, 60.0
"""LAST_SECONDS is also the only delay for bugs of ours."""
STALE_SECONDS = 0.02
"""Another writer was faster and its change is about to be observed, or a new Role has not reached the authorizer.
An object that is not found was deleted, as a watch is about to report, or the API server is starting up."""
STALE_ATTEMPTS = 10
FORBIDDEN_ATTEMPTS = 5
"""An API server that has just started forbids everything for a moment: the first attempts are not reported."""

STALE = (errors.Conflict, errors.NotFound)
REJECTIONS = (errors.Invalid, errors.Forbidden, errors.FieldConflict, errors.NotOurs)
"""Errors that a user has to correct."""


class NextAttempt(NamedTuple):
    """``is_rejection``: a user has to act, so it is reported."""

    delay: float
    is_stale: bool = False
    is_rejection: bool = False


class _Failures(Struct):
    """Failures of one job since it last succeeded. Stale ones don't count towards the growing delays."""

    backoff: Backoff
    stale: int = 0


class Retries:
    def __init__(self, jitter: Callable[[], float] = random.random) -> None:
        self._jitter = jitter
        self._failures: dict[Job, _Failures] = {}

    def on_failure(self, job: Job, error: errors.GatewayError) -> NextAttempt:
        """Count a failure; return when to try again, and whether to report it."""
        failures = self._failures.get(job)
        if failures is None:
            backoff = Backoff(FIRST_SECONDS, LAST_SECONDS, jitter=self._jitter)
            failures = self._failures[job] = _Failures(backoff)
        if isinstance(error, STALE) and failures.stale < STALE_ATTEMPTS:
            failures.stale += 1
            return NextAttempt(STALE_SECONDS * failures.stale, is_stale=True)
        delay = failures.backoff.next(asked=error.retry_after if isinstance(error, errors.ApiError) else 0.0)
        is_early = isinstance(error, errors.Forbidden) and failures.backoff.attempts < FORBIDDEN_ATTEMPTS
        return NextAttempt(delay, is_rejection=isinstance(error, REJECTIONS) and not is_early)

    def on_success(self, job: Job) -> None:
        self._failures.pop(job, None)
