"""Translate the filter URLRewrite.

In:   the filter as the API has it, and the matches of its rule.
Out:  wire.Rewrite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from varnish_gateway.ir import wire
from varnish_gateway.translate.route.filters.path_modifier import translate_path_modifier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from varnish_gateway.api.gateway_networking import UrlRewrite
    from varnish_gateway.translate.conditions import Problem


def translate_rewrite(rewrite: UrlRewrite, matches: Sequence[wire.Match], problems: list[Problem]) -> wire.Rewrite:
    """Return the filter, and add its problems."""
    return wire.Rewrite(hostname=rewrite.hostname, path=translate_path_modifier(rewrite.path, matches, problems))
