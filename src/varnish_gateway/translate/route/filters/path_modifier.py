"""Translate the path of a URLRewrite or RequestRedirect.

In:   the path modifier as the API has it, and the matches of its rule.
Out:  wire.PathModifier; None where there is none, or one of an unknown type.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from varnish_gateway.ir import wire
from varnish_gateway.translate.conditions import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from varnish_gateway.api.gateway_networking import HTTPPathModifier

_NOT_IN_PATH = re.compile(r"[\x00-\x20\x7f?#]")


def translate_path_modifier(
    modifier: HTTPPathModifier | None, matches: Sequence[wire.Match], problems: list[Problem]
) -> wire.PathModifier | None:
    """Return the path modifier, and add its problems."""
    if modifier is None:
        return None
    if modifier.type == "ReplaceFullPath":
        found = wire.PathModifier(type="full", value=modifier.replace_full_path or "")
    elif modifier.type == "ReplacePrefixMatch":
        found = wire.PathModifier(type="prefix", value=modifier.replace_prefix_match or "")
        if any(match.path.type != "prefix" for match in matches):
            message = "ReplacePrefixMatch needs a match of the type PathPrefix; change the match or use ReplaceFullPath"
            problems.append(Problem("UnsupportedValue", message))
    else:
        message = f"the path modifier {modifier.type} is not supported; use ReplaceFullPath or ReplacePrefixMatch"
        problems.append(Problem("UnsupportedValue", message))
        return None
    if bad := _NOT_IN_PATH.search(found.value):
        problems.append(Problem("UnsupportedValue", f"the path {found.value!r} must not hold {bad[0]!r}; remove it"))
    return found
