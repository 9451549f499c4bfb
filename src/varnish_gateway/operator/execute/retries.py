"""When to run a failed job again.

In:   the job and its error.
Out:  the delay, and how often the job has failed since it last succeeded.
Pure. The delay grows while a job keeps failing; how far depends on who can correct the error.
"""

from typing import NamedTuple

from varnish_gateway import errors
from varnish_gateway.operator.plan.jobs import Job
from varnish_gateway.runtime.backoff import Backoff

FIRST_SECONDS, LAST_SECONDS = 0.1, 5.0
LAST_REJECTED_SECONDS = 60.0
"""The longest delay for errors that a user has to correct, and the only one for bugs of ours."""
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


class Retries:
    def __init__(self) -> None:
        self._backoffs: dict[Job, Backoff] = {}

    def on_failure(self, job: Job, error: errors.GatewayError) -> NextAttempt:
        """Count a failure; return when to try again, and whether to report it."""
        backoff = self._backoffs.setdefault(job, Backoff(FIRST_SECONDS, LAST_REJECTED_SECONDS))
        delay = backoff.next()
        if isinstance(error, STALE) and backoff.attempts <= STALE_ATTEMPTS:
            return NextAttempt(min(delay, STALE_SECONDS * backoff.attempts), is_stale=True)
        if not isinstance(error, REJECTIONS):
            return NextAttempt(min(delay, LAST_SECONDS))
        is_early = isinstance(error, errors.Forbidden) and backoff.attempts < FORBIDDEN_ATTEMPTS
        return NextAttempt(delay, is_rejection=not is_early)

    def on_success(self, job: Job) -> None:
        self._backoffs.pop(job, None)
