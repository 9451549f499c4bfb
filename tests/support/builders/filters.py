"""Filters as documents, for the tests of all filters."""

from support.builders.objects import route
from varnish_gateway.ir import wire
from varnish_gateway.translate.route.filters.rule_filters import (
    TranslatedFilters,
    translate_backend_filters,
    translate_filters,
)

PREFIX = (wire.Match(path=wire.PathMatch(type="prefix", value="/a")),)
EXACT = (wire.Match(path=wire.PathMatch(type="exact", value="/a")),)


def translate(*filters: dict, matches: tuple[wire.Match, ...] = PREFIX, on_backend: bool = False) -> TranslatedFilters:
    specs = route(rules=[{"filters": filters}]).spec.rules[0].filters
    return (translate_backend_filters if on_backend else translate_filters)(specs, matches)


def request_headers(**modifier) -> dict:
    return {"type": "RequestHeaderModifier", "requestHeaderModifier": modifier}


def redirect(**fields) -> dict:
    return {"type": "RequestRedirect", "requestRedirect": fields}


def rewrite(**fields) -> dict:
    return {"type": "URLRewrite", "urlRewrite": fields}


def reasons(translated: TranslatedFilters) -> list[str]:
    return [problem.reason for problem in translated.problems]
