"""Translate the filter CORS.

In:   the filter as the API has it.
Out:  wire.Cors, with origins in the form that they are compared in.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from varnish_gateway.ir import wire
from varnish_gateway.translate.conditions import Problem

if TYPE_CHECKING:
    from varnish_gateway.api.gateway_networking import HTTPCORSFilter

_ORIGIN = re.compile(r"https?://(?:(?:\*\.)?[a-z0-9-]+(?:\.[a-z0-9-]+)*|\*)(?::(?P<port>[0-9]{1,5}))?")
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_LAST_PORT = 65535


def translate_cors(cors: HTTPCORSFilter, problems: list[Problem]) -> wire.Cors:
    """Return the filter, and add its problems."""
    origins = tuple(origin.lower() for origin in cors.allow_origins)
    problems.extend(
        _unsupported(f"the origin {origin} is not of the form https://host or https://host:port; correct it")
        for origin in origins
        if origin != "*" and not _is_origin(origin)
    )
    lists = {
        "allowMethods": cors.allow_methods,
        "allowHeaders": cors.allow_headers,
        "exposeHeaders": cors.expose_headers,
    }
    problems.extend(
        _unsupported(f"{field} of the filter CORS has {name!r}, which is no name; correct it")
        for field, names in lists.items()
        for name in names
        if not _TOKEN.fullmatch(name)
    )
    return wire.Cors(
        origins=origins,
        methods=cors.allow_methods,
        headers=cors.allow_headers,
        expose=cors.expose_headers,
        credentials=bool(cors.allow_credentials),
        max_age=cors.max_age,
    )


def _is_origin(text: str) -> bool:
    found = _ORIGIN.fullmatch(text)
    return found is not None and 0 < int(found["port"] or 1) <= _LAST_PORT


def _unsupported(message: str) -> Problem:
    return Problem("UnsupportedValue", message)
