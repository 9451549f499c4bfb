"""Age and lifetime of a response (RFC 9111, section 4.2).

In:   a response, when it was requested and received, and the policy.
Out:  intervals, in milliseconds: the RFC lets a cache choose within them.
"""

from dataclasses import dataclass

from support.cache_model.directives import Directives
from support.cache_model.messages import Response
from support.cache_model.policy import Policy
from support.cache_model.spans import Span, exactly
from support.cache_model.syntax import LARGEST_SECONDS, delta_seconds, http_date

# RFC 9110, section 15.1; 206 is left out because the cache stores no parts.
HEURISTICALLY_CACHEABLE = {200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501}


@dataclass(frozen=True)
class Exchange:
    """When a response was requested and received, in milliseconds since 1970."""

    requested: int
    received: int


def initial_age(response: Response, times: Exchange) -> Span:
    """Return corrected_initial_age (section 4.2.3), with and without trust in Date."""
    stated = (response.lines("age") or ["0"])[0].split(",")[0].strip(" \t")
    corrected = (delta_seconds(stated) or 0) * 1000 + times.received - times.requested
    apparent = [times.received - date for date in _dates(response, times)]
    most = LARGEST_SECONDS * 1000
    return Span(min(corrected, most), min(max([corrected, *apparent]), most))


def explicit_lifetime(response: Response, directives: Directives, times: Exchange) -> Span | None:
    """Return the lifetime that the origin states (section 4.2.1)."""
    stated = directives.span("s-maxage") or directives.span("max-age")
    if stated is not None or directives.targeted or not response.has("expires"):
        return stated
    lines = response.lines("expires")
    expires = http_date(lines[0], times.received // 1000)
    if expires is None:
        return exactly(0)
    generated = _dates(response, times) or [times.received]
    lifetimes = [min(max(0, expires * 1000 - date), LARGEST_SECONDS * 1000) for date in generated]
    # Of several lines the first counts, or the response is stale.
    return Span(min(lifetimes) if len(lines) == 1 else 0, max(lifetimes))


def lifetime(response: Response, directives: Directives, policy: Policy, times: Exchange) -> Span | None:
    """Return the lifetime under a policy; None if nothing states one."""
    explicit = explicit_lifetime(response, directives, times)
    usual = response.status in HEURISTICALLY_CACHEABLE and response.status < 500
    if policy.forced_ttl is not None:
        return exactly(policy.forced_ttl) if usual else explicit
    if explicit is None and (usual or (directives.has("public") and response.status < 500)):
        return exactly(policy.default_ttl or 0)
    return explicit


def _dates(response: Response, times: Exchange) -> list[int]:
    """Return what Date may stand for. The time of arrival replaces an absent one, and may replace an invalid one.

    A cache adds it as a Date, which has whole seconds (RFC 9110, section 6.6.1).
    """
    dates = [http_date(line, times.received // 1000) for line in response.lines("date")]
    known = [date * 1000 for date in dates[:1] if date is not None]
    return known if known and len(dates) == 1 else [*known, times.received, times.received // 1000 * 1000]
