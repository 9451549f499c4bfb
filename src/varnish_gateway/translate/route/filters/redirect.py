"""Translate the filter RequestRedirect.

In:   the filter as the API has it, and the matches of its rule.
Out:  wire.Redirect; None with a status that is not supported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from varnish_gateway.ir import wire
from varnish_gateway.translate.conditions import Problem
from varnish_gateway.translate.route.filters.path_modifier import translate_path_modifier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from varnish_gateway.api.gateway_networking import RequestRedirect

RedirectStatus = Literal[301, 302, 303, 307, 308]
_STATUSES = ", ".join(map(str, get_args(RedirectStatus)))


def translate_redirect(
    redirect: RequestRedirect, matches: Sequence[wire.Match], problems: list[Problem]
) -> wire.Redirect | None:
    """Return the filter, and add its problems."""
    if redirect.scheme not in (None, "http", "https"):
        message = f"the redirect scheme {redirect.scheme} is not supported; use http or https"
        problems.append(Problem("UnsupportedValue", message))
    status = next((code for code in get_args(RedirectStatus) if code == redirect.status_code), None)
    if status is None:
        message = f"the redirect status {redirect.status_code} is not supported; use one of {_STATUSES}"
        problems.append(Problem("UnsupportedValue", message))
        return None
    return wire.Redirect(
        scheme=redirect.scheme,
        hostname=redirect.hostname,
        port=redirect.port,
        path=translate_path_modifier(redirect.path, matches, problems),
        status=status,
    )
