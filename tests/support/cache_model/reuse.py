"""Whether a stored response answers a request without the origin (RFC 9111, sections 4 and 5.2.1).

In:   a stored response that fits the request, and the time.
Out:  the uses that are allowed. The gateway honours directives of requests, which the RFC leaves
      to a cache; so there is mostly one.
"""

from enum import Enum

from support.cache_model import directives as cache_control
from support.cache_model.directives import Directives
from support.cache_model.messages import Request
from support.cache_model.spans import Span
from support.cache_model.stored import Stored


class Use(Enum):
    REUSE = "answer with it"
    REFRESH = "answer with it, and validate it in the background"
    VALIDATE = "ask the origin first"


def uses(stored: Stored, request: Request, now: int) -> frozenset[Use]:
    if stored.needs_validation:
        return frozenset({Use.VALIDATE})
    asked = wanted(request)
    found = set()
    if stored.may_be_fresh(now):
        found |= _while_fresh(stored, asked, now)
    if not stored.is_surely_fresh(now):
        found |= _while_stale(stored, asked, now)
    return frozenset(found)


def wanted(request: Request) -> Directives:
    """Return the directives of a request, Pragma included (section 5.4)."""
    if not request.has("cache-control") and "no-cache" in (request.combined("pragma") or "").lower():
        return Directives((("no-cache", None),))
    return cache_control.of(request)


def _while_fresh(stored: Stored, asked: Directives, now: int) -> set[Use]:
    age = stored.age(now)
    limits = [{Use.VALIDATE} if asked.has("no-cache") else {Use.REUSE}]
    if (most := asked.span("max-age")) is not None:
        limits.append(_limited(age, most))
        if stored.directives.has("immutable"):
            limits[-1].add(Use.REUSE)  # RFC 8246, section 2.1
        if most.low == 0:
            limits[-1].add(Use.VALIDATE)  # nothing is younger than a new response, yet a reload means it
    if (least := asked.span("min-fresh")) is not None:
        limits.append(_limited(age + least.high, stored.lifetime))
    reusable = {Use.REUSE} if all(Use.REUSE in limit for limit in limits) else set()
    return reusable | {Use.VALIDATE for limit in limits if Use.VALIDATE in limit}


def _limited(amount: Span, most: Span) -> set[Use]:
    """Return REUSE for an amount within a limit, VALIDATE beyond it; both if that is open."""
    found = {Use.REUSE} if amount.low <= most.high else set()
    return found | ({Use.VALIDATE} if amount.high > most.low else set())


def _while_stale(stored: Stored, asked: Directives, now: int) -> set[Use]:
    staleness, windows = stored.staleness(now), stored.windows
    most_age = asked.span("max-age")
    too_old = most_age is not None and stored.age(now).low > most_age.high
    if asked.has("no-cache") or asked.has("min-fresh") or too_old:
        return {Use.VALIDATE}
    found: set[Use] = {Use.VALIDATE}
    if asked.has("max-stale") and not windows.forbidden:
        tolerated = _tolerated(asked)
        if staleness.low <= tolerated:
            found |= {Use.REUSE, Use.REFRESH}
        if staleness.high <= tolerated and (most_age is None or stored.age(now).high <= most_age.low):
            return {Use.REUSE, Use.REFRESH}
    if most_age is not None:
        return found
    if stored.failed and staleness.low <= windows.if_error.high:
        found |= {Use.REUSE, Use.REFRESH}
    if staleness.low <= windows.while_revalidating.high and windows.while_revalidating.high:
        found.add(Use.REFRESH)
    if staleness.high < windows.while_revalidating.low:
        found.discard(Use.VALIDATE)
    return found


def _tolerated(asked: Directives) -> int:
    """Return how stale a response may be; max-stale without an argument has no limit."""
    limited = any(name == "max-stale" and argument is not None for name, argument in asked.pairs)
    span = asked.span("max-stale")
    return span.high if limited and span is not None else 2**62
