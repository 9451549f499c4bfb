"""Translate the filters RequestHeaderModifier and ResponseHeaderModifier.

In:   the filter as the API has it.
Out:  wire.HeaderModifier, and problems: a value that can't be sent, or a header that must not change.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from varnish_gateway.ir import wire
from varnish_gateway.translate.conditions import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from varnish_gateway.api.gateway_networking import HeaderFilter, HTTPHeader

FRAMING = frozenset({"content-length", "transfer-encoding"})
"""Headers that delimit a message: a change could split one request into two."""
LOOP_DETECTION = "cdn-loop"
INTERNAL = "x-ghost-"
"""Names of headers begin so by which ghost passes on to itself what it knows about a request."""
IDENTITY = "x-gateway-"
"""Names of headers begin so by which backends and user VCL recognise route and listener. A filter may hide them."""
_UNSENDABLE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def translate_header_modifier(modifier: HeaderFilter, problems: list[Problem]) -> wire.HeaderModifier:
    """Return the filter, and add its problems."""
    problems.extend(Problem("UnsupportedValue", message) for message in _problems(modifier))
    return wire.HeaderModifier(set=_pairs(modifier.set), add=_pairs(modifier.add), remove=modifier.remove)


def _problems(modifier: HeaderFilter) -> Iterator[str]:
    for header in (*modifier.set, *modifier.add):
        if _UNSENDABLE.search(header.value):
            yield f"the value of header {header.name} has a control character; remove it"
    named = [
        *{header.name.lower() for header in modifier.set},
        *{header.name.lower() for header in modifier.add},
        *{name.lower() for name in modifier.remove},
    ]
    for name in sorted(FRAMING.intersection(named)):
        yield f"header {name} can't be changed, because it delimits the message; remove it from the filter"
    if LOOP_DETECTION in named:
        yield f"header {LOOP_DETECTION} can't be changed, because it ends loops; remove it from the filter"
    written = {header.name.lower() for header in (*modifier.set, *modifier.add)}
    reserved = {name for name in named if _begins(name, INTERNAL)} | {
        name for name in written if _begins(name, IDENTITY)
    }
    for name in sorted(reserved):
        yield f"header {name} can't be changed, because X-Ghost- and X-Gateway- are the gateway's own; use another name"
    for action, names in (("added", [header.name for header in modifier.add]), ("removed", modifier.remove)):
        if any(name.lower() == "host" for name in names):
            yield f"header Host can't be {action}: a request has exactly one; set it, or use URLRewrite.hostname"
    for name in sorted({name for name in named if named.count(name) > 1}):
        yield f"header {name} has more than one of set, add and remove; keep one"


def _begins(name: str, prefix: str) -> bool:
    """Return whether a name begins so; some servers take "_" for "-"."""
    return name.replace("_", "-").startswith(prefix)


def _pairs(headers: Sequence[HTTPHeader]) -> tuple[wire.Header, ...]:
    """Return the headers; of names that differ only in case the first counts."""
    first: dict[str, HTTPHeader] = {}
    for header in headers:
        first.setdefault(header.name.lower(), header)
    return tuple(wire.Header(name=header.name, value=header.value) for header in first.values())
