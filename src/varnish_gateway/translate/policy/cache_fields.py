"""Translate the fields of a VarnishCachePolicy to the wire format.

In:   a policy.
Out:  wire.CachePolicy with the fields of its presets, and problems.
Whether the result makes sense is for ghost to decide: see cache_patterns.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from varnish_gateway.api.varnish import CacheFields, RevalidationSpec
from varnish_gateway.ir import wire
from varnish_gateway.translate.conditions import Problem
from varnish_gateway.translate.durations import parse_duration
from varnish_gateway.translate.policy.presets import encoded_name, expand

if TYPE_CHECKING:
    from collections.abc import Mapping

    from varnish_gateway.api import VarnishCachePolicy
    from varnish_gateway.api.varnish import BypassSpec, CacheKeySpec, StatusTTLSpec

DURATIONS = (
    "default_ttl",
    "forced_ttl",
    "grace",
    "stale_while_revalidate",
    "stale_if_error",
    "keep",
    "hit_for_miss",
)
CHOICES: Mapping[str, Mapping[str, str]] = {
    "set_cookie": {"DoNotStore": "doNotStore", "Remove": "remove"},
    "request_cookies": {"Explicit": "explicit", "Remove": "remove", "Ignore": "ignore"},
    "cache_status": {"Off": "off", "On": "on", "Trusted": "trusted"},
}
PERCENTAGES = ("heuristic_percent", "jitter_percent")
AS_THEY_ARE = ("unsafe_ignore_no_store_and_private", "ignore_request_directives", "exact_vary", "gzip", "esi")
TAG_HEADERS = ("Surrogate-Key", "Cache-Tag", "xkey", "Cache-Groups", "Cache-Tags", "X-Cache-Tags", "X-Magento-Tags")
# Defaults are left out of the wire format only where they are the very same object.
DEFAULT = wire.CachePolicy()


def policy_name(policy: VarnishCachePolicy) -> str:
    return f"{policy.metadata.namespace}/{policy.metadata.name}"


def translate_fields(policy: VarnishCachePolicy) -> tuple[wire.CachePolicy, list[Problem]]:
    """Return a policy as it travels, and what is wrong with its fields."""
    problems: list[Problem] = []
    own = CacheFields(**{name: getattr(policy.spec, name) for name in CacheFields.__struct_fields__})
    fields = expand(own, policy.spec.presets, problems)
    found: dict[str, Any] = {"name": policy_name(policy)}
    for name in DURATIONS:
        found[name] = _duration(encoded_name(CacheFields, name), getattr(fields, name), problems)
    for name, choices in CHOICES.items():
        found[name] = _choice(name, choices, getattr(fields, name), problems)
    for name in PERCENTAGES:
        found[name] = _within(encoded_name(CacheFields, name), getattr(fields, name), 100, problems)
    found |= {name: getattr(fields, name) for name in AS_THEY_ARE}
    found["max_object_size"] = _within("maxObjectSize", fields.max_object_size, 2**63 - 1, problems)
    found["tag_headers"] = _tag_headers(fields.tag_headers, problems)
    found["status_ttls"] = _status_ttls(fields.status_ttls, problems)
    found["cache_key"] = _cache_key(fields.cache_key, problems)
    found["bypass"] = _bypass(fields.bypass)
    found["revalidation"] = _revalidation(fields.revalidation, problems)
    return wire.CachePolicy(**{name: value for name, value in found.items() if value is not None}), problems


def _duration(field: str, text: str | None, problems: list[Problem]) -> int | None:
    found: list[Problem] = []
    length = parse_duration(field, text, found, fractions=True)
    problems.extend(Problem("Invalid", one.message) for one in found)
    return length


def _choice(name: str, choices: Mapping[str, str], chosen: str | None, problems: list[Problem]) -> str | None:
    if chosen is None or chosen in choices:
        return None if chosen is None else choices[chosen]
    field = encoded_name(CacheFields, name)
    problems.append(Problem("Invalid", f"{field}: {chosen} is not one of {', '.join(choices)}; correct it"))
    return None


def _within(field: str, number: int | None, most: int, problems: list[Problem]) -> int | None:
    if number is None or 0 <= number <= most:
        return number
    problems.append(Problem("Invalid", f"{field}: {number} is not between 0 and {most}; correct it"))
    return None


def _tag_headers(names: tuple[str, ...] | None, problems: list[Problem]) -> tuple[wire.TagHeader, ...] | None:
    if names is None:
        return None
    known = {name.lower(): name for name in TAG_HEADERS}
    for name in names:
        if name.lower() not in known:
            message = f"tagHeaders: {name} is not one of {', '.join(TAG_HEADERS)}; correct it"
            problems.append(Problem("Invalid", message))
    found = dict.fromkeys(known[name.lower()] for name in names if name.lower() in known)
    return cast("tuple[wire.TagHeader, ...]", tuple(found))


def _status_ttls(ttls: tuple[StatusTTLSpec, ...] | None, problems: list[Problem]) -> tuple[wire.StatusTTL, ...] | None:
    if not ttls:
        return None
    durations = ((one.status, _duration(f"statusTTLs[{at}].ttl", one.ttl, problems)) for at, one in enumerate(ttls))
    return tuple(wire.StatusTTL(status=status, ttl=ttl or 0) for status, ttl in durations)


def _cache_key(key: CacheKeySpec | None, problems: list[Problem]) -> wire.CacheKey | None:
    if key is None:
        return None
    parameters = key.query_parameters
    if parameters is not None and parameters.include is not None and parameters.exclude is not None:
        message = "cacheKey.queryParameters: include excludes exclude; remove one of them"
        problems.append(Problem("Invalid", message))
        return None
    default = DEFAULT.cache_key
    made = wire.CacheKey(
        headers=key.headers or (),
        cookies=key.cookies or (),
        query_parameters=(
            default.query_parameters
            if parameters is None or (parameters.include is None and parameters.exclude is None)
            else wire.QueryParameters(include=parameters.include, exclude=parameters.exclude)
        ),
        scheme=key.scheme is not False,
        listener=key.listener is not False,
    )
    return default if made == default else made


def _bypass(bypass: BypassSpec | None) -> wire.Bypass | None:
    if bypass is None:
        return None
    headers = tuple(wire.BypassHeader(name=one.name, value_regex=one.value_regex) for one in bypass.headers or ())
    made = wire.Bypass(headers=headers, cookies=bypass.cookies or (), methods=bypass.methods or ())
    return DEFAULT.bypass if made == DEFAULT.bypass else made


def _revalidation(given: RevalidationSpec | None, problems: list[Problem]) -> wire.Revalidation | None:
    if given is None:
        return None
    found = {
        name: _within(f"revalidation.{encoded_name(RevalidationSpec, name)}", getattr(given, name), 2**32 - 1, problems)
        for name in RevalidationSpec.__struct_fields__
    }
    made = wire.Revalidation(**{name: value for name, value in found.items() if value is not None})
    return DEFAULT.revalidation if made == DEFAULT.revalidation else made
