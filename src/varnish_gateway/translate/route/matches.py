"""Translate the matches of a rule.

In:   one RouteMatch.
Out:  wire.Match, and a problem where a part of it can't be compared (an invalid regex, a
      value that we don't know).

A match with a problem is never dropped: its requests would fall to another rule in silence.
It takes all that it can have been meant for, for its rule to answer 500, and nothing else: other
routes have a right to that. Of a bad header or query parameter it is left that there is one. What
is left of a path regex is its literal beginning, as a regex that ranks below every other path, because
its rule is marked as approximate.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from varnish_gateway.ir import wire
from varnish_gateway.translate.conditions import Problem
from varnish_gateway.translate.route.regexes import why_invalid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from varnish_gateway.api.gateway_networking import HTTPPathMatch, HTTPValueMatch, RouteMatch

    WhyInvalid = Callable[[str], str | None]

REGEX = "RegularExpression"
"""The type of a path, header or query parameter that is compared with a regular expression."""
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"})
# Defaults are left out of the wire format only where they are the very same object.
EVERYTHING = wire.Rule().matches
ROOT = wire.Match().path
_PATH_TYPES: dict[str, Literal["exact", "prefix", "regex"]] = {
    "Exact": "exact",
    "PathPrefix": "prefix",
    REGEX: "regex",
}
_VALUE_TYPES: dict[str, Literal["exact", "regex"]] = {"Exact": "exact", REGEX: "regex"}
_ANY_VALUE = "(?s).*"
_LITERAL = re.compile(r"\^?((?:[\w/~!@%&=:;,'\"<>-](?![*?{]))*)", re.ASCII)


def translate_matches(
    matches: Sequence[RouteMatch], why_invalid: WhyInvalid = why_invalid
) -> tuple[tuple[wire.Match, ...], list[Problem]]:
    """Return the matches of a rule and what is wrong with them. No matches match everything."""
    problems: list[Problem] = []
    if not matches:
        return EVERYTHING, problems
    return tuple(_match(match, problems, why_invalid) for match in matches), problems


def _match(match: RouteMatch, problems: list[Problem], why_invalid: WhyInvalid) -> wire.Match:
    bad_path = _path_problems(match.path, why_invalid)
    problems.extend(bad_path)
    problems.extend(_method_problems(match.method))
    problems.extend(_value_problems("header", match.headers, why_invalid))
    problems.extend(_value_problems("query parameter", match.query_params, why_invalid))
    return wire.Match(
        path=_beginning(match.path) if bad_path else _path(match.path),
        method=match.method,
        headers=_values(match.headers, str.lower, why_invalid),
        query=_values(match.query_params, str, why_invalid),
    )


def _path(path: HTTPPathMatch) -> wire.PathMatch:
    if path.type != "PathPrefix":
        return wire.PathMatch(type=_PATH_TYPES[path.type], value=path.value)
    value = path.value.rstrip("/")
    return wire.PathMatch(type="prefix", value=value) if value else ROOT


def _beginning(path: HTTPPathMatch) -> wire.PathMatch:
    """Return a regex for everything that a broken one can have been meant for."""
    literal = _LITERAL.match(path.value) if "|" not in path.value else None
    return wire.PathMatch(type="regex", value=f"{re.escape(literal[1]) if literal else ''}.*")


def _path_problems(path: HTTPPathMatch, why_invalid: WhyInvalid) -> list[Problem]:
    if path.type not in _PATH_TYPES:
        return [_unknown("path match type", path.type)]
    if path.type == REGEX and (why := why_invalid(path.value)) is not None:
        return [_bad_regex("path", why)]
    return []


def _method_problems(method: str | None) -> list[Problem]:
    return [] if method is None or method in METHODS else [_unknown("method", method)]


def _value_problems(what: str, values: Sequence[HTTPValueMatch], why_invalid: WhyInvalid) -> list[Problem]:
    problems = []
    for value in values:
        if value.type not in _VALUE_TYPES:
            problems.append(_unknown(f"{what} match type", value.type))
        elif value.type == REGEX and (why := why_invalid(value.value)) is not None:
            problems.append(_bad_regex(f"{what} {value.name}", why))
    return problems


def _values(
    values: Sequence[HTTPValueMatch], normal: Callable[[str], str], why_invalid: WhyInvalid
) -> tuple[wire.ValueMatch, ...]:
    """Of equivalent names only the first counts."""
    first: dict[str, HTTPValueMatch] = {}
    for value in values:
        first.setdefault(normal(value.name), value)
    return tuple(_value(name, value, why_invalid) for name, value in first.items())


def _value(name: str, value: HTTPValueMatch, why_invalid: WhyInvalid) -> wire.ValueMatch:
    if _value_problems("", (value,), why_invalid):
        return wire.ValueMatch(name=name, value=_ANY_VALUE, type="regex")
    return wire.ValueMatch(name=name, value=value.value, type=_VALUE_TYPES[value.type])


def regexes_of(matches: Iterable[wire.Match]) -> Iterator[str]:
    """Return the regular expressions that ghost compiles, in its order."""
    for match in matches:
        if match.path.type == "regex":
            yield match.path.value
        yield from (value.value for value in (*match.headers, *match.query) if value.type == "regex")


def _unknown(what: str, value: str) -> Problem:
    return Problem("UnsupportedValue", f"{what} {value} is not supported")


def _bad_regex(what: str, why: str) -> Problem:
    return Problem("UnsupportedValue", f"{what}: {why}")
