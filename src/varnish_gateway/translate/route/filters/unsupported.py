"""Filters that are not supported at all, or not on a backendRef.

Not supported at all: RequestMirror, ExtensionRef, ExternalAuth and every type that is not known.
A redirect has no backend to be sent to, and ghost answers a CORS preflight without one, so both
belong on a rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from varnish_gateway.translate.conditions import Problem

if TYPE_CHECKING:
    from varnish_gateway.ir import wire


def anywhere(type_: str) -> Problem:
    """Return the problem of a filter that is not supported."""
    return Problem("UnsupportedValue", f"the filter {type_} is not supported; remove it")


def on_backend(redirect: wire.Redirect | None, cors: wire.Cors | None) -> list[Problem]:
    """Return the problems of filters that can't be on a backendRef."""
    misplaced = {"RequestRedirect": redirect, "CORS": cors}
    return [
        Problem("UnsupportedValue", f"the filter {name} is not supported on a backendRef; put it on a rule")
        for name, found in misplaced.items()
        if found is not None
    ]
