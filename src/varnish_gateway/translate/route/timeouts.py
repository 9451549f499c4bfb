"""Translate the time-outs of a rule.

In:   the timeouts of a RouteRule.
Out:  wire.Timeouts where the rule has any, and problems.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from varnish_gateway.ir import wire
from varnish_gateway.translate.conditions import Problem
from varnish_gateway.translate.durations import parse_duration

if TYPE_CHECKING:
    from varnish_gateway.api.gateway_networking import HTTPRouteTimeouts


def translate_timeouts(timeouts: HTTPRouteTimeouts | None, problems: list[Problem]) -> wire.Timeouts | None:
    """Return the time-outs, and add their problems. "0s" is no limit, which is not the same as absent."""
    if timeouts is None:
        return None
    request = parse_duration("timeouts.request", timeouts.request, problems)
    backend_request = parse_duration("timeouts.backendRequest", timeouts.backend_request, problems)
    if request and backend_request and backend_request > request:
        message = "timeouts.backendRequest is longer than timeouts.request; shorten it"
        problems.append(Problem("UnsupportedValue", message))
    if request is None and backend_request is None:
        return None
    return wire.Timeouts(request=request, backend_request=backend_request)
