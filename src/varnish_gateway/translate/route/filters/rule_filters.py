"""Translate the filters of a rule or of one of its backendRefs.

In:   RouteFilters, and the matches that a prefix replacement refers to.
Out:  the translated filters, and problems: a filter that is not supported, or that conflicts
      with another one. A rule with a problem answers 500; a filter is never skipped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from varnish_gateway.ir import wire
from varnish_gateway.translate.conditions import Problem
from varnish_gateway.translate.route.filters import unsupported
from varnish_gateway.translate.route.filters.cors import translate_cors
from varnish_gateway.translate.route.filters.header_modifier import translate_header_modifier
from varnish_gateway.translate.route.filters.redirect import translate_redirect
from varnish_gateway.translate.route.filters.rewrite import translate_rewrite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from varnish_gateway.api.gateway_networking import RouteFilter

ONCE = ("CORS", "RequestHeaderModifier", "ResponseHeaderModifier", "RequestRedirect", "URLRewrite")
"""Filters that a rule may have once."""


class TranslatedFilters(Struct, frozen=True):
    """Filters of one rule or one backendRef."""

    filters: wire.Filters | None = None
    redirect: wire.Redirect | None = None
    cors: wire.Cors | None = None
    problems: tuple[Problem, ...] = ()


NO_FILTERS = TranslatedFilters()


def translate_filters(filters: Sequence[RouteFilter], matches: Sequence[wire.Match]) -> TranslatedFilters:
    """Return the filters of a rule."""
    if not filters:
        return NO_FILTERS
    problems = _incompatible(filters)
    request = response = rewrite = redirect = cors = None
    for item in filters:
        if item.type == "RequestHeaderModifier" and item.request_header_modifier:
            request = translate_header_modifier(item.request_header_modifier, problems)
        elif item.type == "ResponseHeaderModifier" and item.response_header_modifier:
            response = translate_header_modifier(item.response_header_modifier, problems)
        elif item.type == "URLRewrite" and item.url_rewrite:
            rewrite = translate_rewrite(item.url_rewrite, matches, problems)
        elif item.type == "RequestRedirect" and item.request_redirect:
            redirect = translate_redirect(item.request_redirect, matches, problems)
        elif item.type == "CORS" and item.cors:
            cors = translate_cors(item.cors, problems)
        else:
            problems.append(unsupported.anywhere(item.type))
    found = wire.Filters(request=request, response=response, rewrite=rewrite)
    return TranslatedFilters(found if found != wire.Filters() else None, redirect, cors, tuple(dict.fromkeys(problems)))


def translate_backend_filters(filters: Sequence[RouteFilter], matches: Sequence[wire.Match]) -> TranslatedFilters:
    """Return the filters of a backendRef."""
    translated = translate_filters(filters, matches)
    problems = unsupported.on_backend(translated.redirect, translated.cors)
    return TranslatedFilters(problems=(*translated.problems, *problems)) if problems else translated


def _incompatible(filters: Sequence[RouteFilter]) -> list[Problem]:
    types = [item.type for item in filters]
    problems = [
        Problem("IncompatibleFilters", f"the filter {type_} is given more than once; keep one")
        for type_ in ONCE
        if types.count(type_) > 1
    ]
    if "URLRewrite" in types and "RequestRedirect" in types:
        problems.append(
            Problem("IncompatibleFilters", "URLRewrite and RequestRedirect can't be combined; remove one of them")
        )
    return problems
