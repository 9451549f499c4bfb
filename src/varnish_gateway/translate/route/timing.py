"""Translate the time-outs and the retries of a rule.

In:   a RouteRule.
Out:  wire.Timeouts and wire.Retry where the rule asks for them, and problems.
What is not said about retries is decided here: one more attempt, 25 ms later. A pause holds
a worker of varnishd, and every attempt a connection, so both have a limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from varnish_gateway.ir import wire
from varnish_gateway.translate.conditions import Problem
from varnish_gateway.translate.route.durations import milliseconds

if TYPE_CHECKING:
    from varnish_gateway.api.gateway_networking import Retry, RouteRule, Timeouts

MOST_ATTEMPTS = 20
LONGEST_BACKOFF = 30_000
LOWEST_CODE = 400
"""Answers below are no errors: an attempt that got one is not repeated."""


class Timing(Struct, frozen=True):
    timeouts: wire.Timeouts | None = None
    retry: wire.Retry | None = None
    problems: tuple[Problem, ...] = ()


NOTHING = Timing()


def translate_timing(rule: RouteRule) -> Timing:
    """Return how long a request may take, and how often it is tried."""
    if rule.timeouts is None and rule.retry is None:
        return NOTHING
    problems: list[Problem] = []
    timeouts = _timeouts(rule.timeouts, problems) if rule.timeouts else None
    retry = _retry(rule.retry, problems) if rule.retry else None
    return Timing(timeouts, retry, tuple(problems))


def _timeouts(timeouts: Timeouts, problems: list[Problem]) -> wire.Timeouts | None:
    """Return what is said; "0s" is no limit, which is not the same as nothing."""
    request = _duration("timeouts.request", timeouts.request, problems)
    backend_request = _duration("timeouts.backendRequest", timeouts.backend_request, problems)
    if request and backend_request and backend_request > request:
        problems.append(_unsupported("timeouts.backendRequest is longer than timeouts.request; shorten it"))
    if request is None and backend_request is None:
        return None
    return wire.Timeouts(request=request, backend_request=backend_request)


def _retry(retry: Retry, problems: list[Problem]) -> wire.Retry:
    default = wire.Retry()
    attempts = default.attempts if retry.attempts is None else retry.attempts
    backoff = _duration("retry.backoff", retry.backoff, problems)
    backoff = default.backoff if backoff is None else backoff
    if not 0 < attempts <= MOST_ATTEMPTS:
        problems.append(_unsupported(f"retry.attempts is {attempts}; it can be 1 to {MOST_ATTEMPTS}"))
    if backoff > LONGEST_BACKOFF:
        problems.append(_unsupported(f"retry.backoff is {retry.backoff}; it can be {LONGEST_BACKOFF // 1000}s at most"))
    problems.extend(
        _unsupported(f"retry.codes has {code}, which is no error; use {LOWEST_CODE} to 999")
        for code in retry.codes
        if not LOWEST_CODE <= code <= 999
    )
    return wire.Retry(codes=tuple(sorted(set(retry.codes))), attempts=attempts, backoff=backoff)


def _duration(field: str, text: str | None, problems: list[Problem]) -> int | None:
    if text is None:
        return None
    found = milliseconds(text)
    if found is None:
        problems.append(_unsupported(f'{field}: {text!r} is not a duration such as "500ms" or "1m30s"'))
    return found


def _unsupported(message: str) -> Problem:
    return Problem("UnsupportedValue", message)
