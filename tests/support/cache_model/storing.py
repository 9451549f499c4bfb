"""Whether a response may be stored (RFC 9111, section 3), and for which stale uses.

In:   a request, its response, the policy and the times.
Out:  why it must not be stored; or the windows in which it may be used stale (section 4.2.4 and
      RFC 5861).

Choices of the gateway that the RFC allows: it stores no parts, no 5xx without a stated lifetime,
and nothing with Set-Cookie that the origin doesn't withhold.
"""

from dataclasses import dataclass

from support.cache_model import directives as cache_control
from support.cache_model.directives import Directives
from support.cache_model.freshness import HEURISTICALLY_CACHEABLE, Exchange, explicit_lifetime, lifetime
from support.cache_model.messages import Request, Response
from support.cache_model.policy import Policy
from support.cache_model.spans import NONE, Span, exactly

_UNDERSTOOD = HEURISTICALLY_CACHEABLE | {201, 202, 205, 302, 303, 307, 400, 401, 402, 403, 406, 407, 408, 409}
_UNDERSTOOD |= {411, 412, 413, 415, 417, 421, 422, 426, 451, 500, 502, 503, 504, 505}


@dataclass(frozen=True)
class Windows:
    """How stale a response may be used, and whether directives forbid all stale use."""

    while_revalidating: Span
    if_error: Span
    forbidden: bool


def prohibition(request: Request, response: Response, policy: Policy, times: Exchange) -> str | None:
    """Return why the response must not be stored."""
    directives = cache_control.speaking(response)
    status = response.status
    understood = status in _UNDERSTOOD
    lifts_no_store = directives.has("must-understand") and understood
    permits_sharing = any(map(directives.has, ("must-revalidate", "public", "s-maxage")))
    withheld = withheld_fields(directives)
    rules = {
        "method": request.method != "GET",
        "status": status < 200 or status in {206, 304},
        "must-understand": directives.has("must-understand") and not understood,
        "no-store": directives.has("no-store") and not lifts_no_store,
        "request no-store": cache_control.of(request).has("no-store"),
        "private": directives.has_plain("private"),
        "authorization": request.has("authorization") and not permits_sharing,
        "set-cookie": response.has("set-cookie") and "set-cookie" not in withheld,
        "no lifetime": lifetime(response, directives, policy, times) is None,
    }
    return next((reason for reason, applies in rules.items() if applies), None)


def withheld_fields(directives: Directives) -> set[str]:
    """Return fields that a stored response is used without (sections 5.2.2.4 and 5.2.2.7)."""
    return directives.field_names("private") | directives.field_names("no-cache")


def is_forced(response: Response, policy: Policy) -> bool:
    """Tell whether ``forced_ttl`` replaces what the origin says about freshness."""
    usual = response.status in HEURISTICALLY_CACHEABLE and response.status < 500
    return policy.forced_ttl is not None and usual


def windows(response: Response, directives: Directives, policy: Policy, times: Exchange) -> Windows:
    forced = is_forced(response, policy)
    strict = directives.has("must-revalidate") or directives.has("proxy-revalidate")
    strict = strict or (directives.has_plain("no-cache") and not forced)
    shared = directives.has("s-maxage") and not forced
    if strict:
        return Windows(NONE, NONE, forbidden=True)
    explicit = None if forced else explicit_lifetime(response, directives, times)
    default = _while_revalidating(policy, explicit)
    stated = directives.span("stale-while-revalidate")
    if policy.grace is not None:
        # s-maxage forbids it, and a window beside s-maxage lifts that: both readings are safe.
        while_revalidating = Span(0, default.high if stated else 0) if shared else default
    else:
        while_revalidating = stated or (NONE if shared else default)
    fallback = NONE if shared else exactly(policy.stale_if_error or 0)
    return Windows(while_revalidating, directives.span("stale-if-error") or fallback, forbidden=shared)


def _while_revalidating(policy: Policy, explicit: Span | None) -> Span:
    """Return the policy's window. It doesn't apply where the origin states a lifetime of zero."""
    window = policy.grace if policy.grace is not None else policy.stale_while_revalidate or 0
    if explicit is not None and explicit.high == 0:
        return NONE
    return Span(0, window) if explicit is not None and explicit.low == 0 else exactly(window)
