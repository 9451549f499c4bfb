"""Translate the filters of a rule or of one of its backendRefs.

In:   RouteFilters, and the matches that a prefix replacement refers to.
Out:  what is to be done, and problems: a filter that we don't carry out, or that can't go
      with another one. A rule with a problem answers 500; a filter is never skipped.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, get_args

from msgspec import Struct

from varnish_gateway.ir import wire
from varnish_gateway.translate.conditions import Problem
from varnish_gateway.translate.route.filters.cors import translate_cors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from varnish_gateway.api.gateway_networking import (
        Header,
        HeaderFilter,
        PathModifier,
        RequestRedirect,
        RouteFilter,
        UrlRewrite,
    )

RedirectStatus = Literal[301, 302, 303, 307, 308]
ONCE = ("CORS", "RequestHeaderModifier", "ResponseHeaderModifier", "RequestRedirect", "URLRewrite")
"""Filters that a rule may have once."""
FRAMING = frozenset({"content-length", "transfer-encoding"})
"""Headers that say where a message ends: a change could make one request into two."""
_UNSENDABLE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_NOT_IN_PATH = re.compile(r"[\x00-\x20\x7f?#]")


class Translated(Struct, frozen=True):
    """Filters of one rule or one backendRef."""

    filters: wire.Filters | None = None
    redirect: wire.Redirect | None = None
    cors: wire.Cors | None = None
    problems: tuple[Problem, ...] = ()


NOTHING = Translated()


def translate_filters(filters: Sequence[RouteFilter], matches: Sequence[wire.Match]) -> Translated:
    """Return what the filters of a rule do."""
    if not filters:
        return NOTHING
    problems = _incompatible(filters)
    request = response = rewrite = redirect = cors = None
    for item in filters:
        if item.type == "RequestHeaderModifier" and item.request_header_modifier:
            request = _headers(item.request_header_modifier, problems)
        elif item.type == "ResponseHeaderModifier" and item.response_header_modifier:
            response = _headers(item.response_header_modifier, problems)
        elif item.type == "URLRewrite" and item.url_rewrite:
            rewrite = _rewrite(item.url_rewrite, matches, problems)
        elif item.type == "RequestRedirect" and item.request_redirect:
            redirect = _redirect(item.request_redirect, matches, problems)
        elif item.type == "CORS" and item.cors:
            cors = translate_cors(item.cors, problems)
        else:
            problems.append(Problem("UnsupportedValue", f"the filter {item.type} is not supported; remove it"))
    done = wire.Filters(request=request, response=response, rewrite=rewrite)
    return Translated(done if done != wire.Filters() else None, redirect, cors, tuple(dict.fromkeys(problems)))


def translate_backend_filters(filters: Sequence[RouteFilter], matches: Sequence[wire.Match]) -> Translated:
    """Return what the filters of a backendRef do.

    A redirect there has no backend to go to, and a preflight is answered without one.
    """
    translated = translate_filters(filters, matches)
    misplaced = {"RequestRedirect": translated.redirect, "CORS": translated.cors}
    problems = [
        Problem("UnsupportedValue", f"the filter {name} is not supported on a backendRef; put it on a rule")
        for name, found in misplaced.items()
        if found is not None
    ]
    return Translated(problems=(*translated.problems, *problems)) if problems else translated


def _incompatible(filters: Sequence[RouteFilter]) -> list[Problem]:
    types = [item.type for item in filters]
    problems = [
        Problem("IncompatibleFilters", f"the filter {type_} is given more than once; keep one")
        for type_ in ONCE
        if types.count(type_) > 1
    ]
    if "URLRewrite" in types and "RequestRedirect" in types:
        problems.append(Problem("IncompatibleFilters", "URLRewrite and RequestRedirect can't be combined"))
    return problems


def _headers(modifier: HeaderFilter, problems: list[Problem]) -> wire.HeaderModifier:
    problems.extend(
        Problem("UnsupportedValue", f"the value of header {header.name} has a control character")
        for header in (*modifier.set, *modifier.add)
        if _UNSENDABLE.search(header.value)
    )
    named = [
        *{header.name.lower() for header in modifier.set},
        *{header.name.lower() for header in modifier.add},
        *{name.lower() for name in modifier.remove},
    ]
    problems.extend(
        Problem("UnsupportedValue", f"header {name} can't be changed: it says where the message ends")
        for name in sorted(FRAMING.intersection(named))
    )
    for action, names in (("added", [header.name for header in modifier.add]), ("removed", modifier.remove)):
        if any(name.lower() == "host" for name in names):
            remedy = "a request has exactly one; set it, or use URLRewrite.hostname"
            problems.append(Problem("UnsupportedValue", f"header Host can't be {action}: {remedy}"))
    problems.extend(
        Problem("UnsupportedValue", f"header {name} has more than one of set, add and remove")
        for name in sorted({name for name in named if named.count(name) > 1})
    )
    return wire.HeaderModifier(set=_pairs(modifier.set), add=_pairs(modifier.add), remove=modifier.remove)


def _pairs(headers: Sequence[Header]) -> tuple[wire.Header, ...]:
    """Of equivalent names only the first counts."""
    first: dict[str, Header] = {}
    for header in headers:
        first.setdefault(header.name.lower(), header)
    return tuple(wire.Header(name=header.name, value=header.value) for header in first.values())


def _rewrite(rewrite: UrlRewrite, matches: Sequence[wire.Match], problems: list[Problem]) -> wire.Rewrite:
    return wire.Rewrite(hostname=rewrite.hostname, path=_path(rewrite.path, matches, problems))


def _redirect(
    redirect: RequestRedirect, matches: Sequence[wire.Match], problems: list[Problem]
) -> wire.Redirect | None:
    if redirect.scheme not in (None, "http", "https"):
        problems.append(Problem("UnsupportedValue", f"the redirect scheme {redirect.scheme} is not supported"))
    status = next((code for code in get_args(RedirectStatus) if code == redirect.status_code), None)
    if status is None:
        problems.append(Problem("UnsupportedValue", f"the redirect status {redirect.status_code} is not supported"))
        return None
    return wire.Redirect(
        scheme=redirect.scheme,
        hostname=redirect.hostname,
        port=redirect.port,
        path=_path(redirect.path, matches, problems),
        status=status,
    )


def _path(
    modifier: PathModifier | None, matches: Sequence[wire.Match], problems: list[Problem]
) -> wire.PathModifier | None:
    if modifier is None:
        return None
    if modifier.type == "ReplaceFullPath":
        found = wire.PathModifier(type="full", value=modifier.replace_full_path or "")
    elif modifier.type == "ReplacePrefixMatch":
        found = wire.PathModifier(type="prefix", value=modifier.replace_prefix_match or "")
        if any(match.path.type != "prefix" for match in matches):
            problems.append(Problem("UnsupportedValue", "ReplacePrefixMatch needs matches of the type PathPrefix"))
    else:
        problems.append(Problem("UnsupportedValue", f"the path modifier {modifier.type} is not supported"))
        return None
    if bad := _NOT_IN_PATH.search(found.value):
        problems.append(Problem("UnsupportedValue", f"the path {found.value!r} must not hold {bad[0]!r}"))
    return found
