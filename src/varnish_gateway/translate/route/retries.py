"""Translate the retries of a rule.

In:   the retry of a RouteRule.
Out:  wire.Retry where the rule has one, and problems.
Absent fields default to one more attempt, 25 ms later. A backoff holds a worker of varnishd, so it
has a limit. Attempts have none: ghost limits their time, and how many of them wait at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from varnish_gateway.ir import wire
from varnish_gateway.translate.conditions import Problem
from varnish_gateway.translate.durations import parse_duration

if TYPE_CHECKING:
    from varnish_gateway.api.gateway_networking import HTTPRouteRetry

MOST_ATTEMPTS = 2**31 - 1
"""What the wire format holds; more than any request has time for."""
LONGEST_BACKOFF = 30_000
LOWEST_CODE = 400
"""Codes below are no errors: an attempt that received one is not repeated."""
_DEFAULT = wire.Retry()


def translate_retry(retry: HTTPRouteRetry | None, problems: list[Problem]) -> wire.Retry | None:
    """Return the retries, and add their problems."""
    if retry is None:
        return None
    attempts = _DEFAULT.attempts if retry.attempts is None else retry.attempts
    backoff = parse_duration("retry.backoff", retry.backoff, problems)
    backoff = _DEFAULT.backoff if backoff is None else backoff
    if attempts < 0:
        problems.append(_unsupported(f"retry.attempts is {attempts}; use 0 for no retries, or a positive number"))
    if backoff > LONGEST_BACKOFF:
        problems.append(_unsupported(f"retry.backoff is {retry.backoff}; it can be {LONGEST_BACKOFF // 1000}s at most"))
    problems.extend(
        _unsupported(f"retry.codes has {code}, which is no error; use {LOWEST_CODE} to 999")
        for code in retry.codes
        if not LOWEST_CODE <= code <= 999
    )
    return wire.Retry(codes=tuple(sorted(set(retry.codes))), attempts=min(attempts, MOST_ATTEMPTS), backoff=backoff)


def _unsupported(message: str) -> Problem:
    return Problem("UnsupportedValue", message)
