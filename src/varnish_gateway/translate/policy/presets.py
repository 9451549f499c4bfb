"""Presets of cache policies: names for fields that belong together.

In:   the fields of a policy, and the names of its presets.
Out:  all fields together. A field of the policy itself counts before those of presets. Of fields that exclude each
      other, one of the policy itself drops the other of a preset.

No preset stores private content: none ignores no-store or private, or stores responses with Set-Cookie. Cookies of a
request don't reach the origin, or else the origin has to state that its response may be stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from varnish_gateway.api.varnish import (
    BypassSpec,
    CacheFields,
    CacheKeySpec,
    QueryParametersSpec,
    RevalidationSpec,
)
from varnish_gateway.translate.conditions import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Path = tuple[str, ...]

TRACKING = QueryParametersSpec(
    exclude=("utm_*", "gclid", "gbraid", "wbraid", "fbclid", "msclkid", "mc_cid", "mc_eid", "_ga", "_gl")
)
"""Parameters that tell where a visitor comes from; pages don't depend on them."""
SESSIONS = (
    "SESS*",
    "SSESS*",
    "PHPSESSID",
    "wordpress_logged_in_*",
    "wordpress_sec_*",
    "wp-postpass_*",
    "comment_author_*",
    "wp_woocommerce_session_*",
    "woocommerce_*",
    "fe_typo_user",
    "be_typo_user",
    "X-Magento-Vary",
)
"""Cookies of Drupal, WordPress, WooCommerce, TYPO3, Magento and plain PHP for a visitor who isn't anonymous."""

PRESETS: Mapping[str, CacheFields] = {
    # Files that are the same for everybody; their origin often says nothing about caching.
    "static": CacheFields(
        default_ttl="24h",
        stale_while_revalidate="1h",
        stale_if_error="24h",
        keep="24h",
        jitter_percent=10,
        cache_key=CacheKeySpec(query_parameters=TRACKING),
        request_cookies="Remove",
        gzip=True,
    ),
    # Only what the origin declares cacheable.
    "api": CacheFields(default_ttl="0s", stale_if_error="5m", gzip=True),
    # Pages for anonymous visitors; everybody else passes.
    "cms": CacheFields(
        default_ttl="2m",
        stale_while_revalidate="1h",
        stale_if_error="24h",
        jitter_percent=10,
        cache_key=CacheKeySpec(query_parameters=TRACKING),
        bypass=BypassSpec(cookies=SESSIONS),
        request_cookies="Remove",
        tag_headers=("Surrogate-Key", "Cache-Tag", "xkey"),
        gzip=True,
    ),
    # Frameworks that render pages again in the background state s-maxage and stale-while-revalidate themselves.
    "framework-isr": CacheFields(
        default_ttl="0s",
        stale_if_error="24h",
        cache_key=CacheKeySpec(query_parameters=TRACKING),
        bypass=BypassSpec(cookies=("__prerender_bypass", "__next_preview_data")),
        tag_headers=("Cache-Tag",),
        gzip=True,
    ),
}
EXCLUSIVE: Mapping[str, str] = {
    "default_ttl": "forced_ttl",
    "forced_ttl": "default_ttl",
    "grace": "stale_while_revalidate",
    "stale_while_revalidate": "grace",
}
_PARTS: Mapping[str, type[Any]] = {"cache_key": CacheKeySpec, "bypass": BypassSpec, "revalidation": RevalidationSpec}


def expand(own: CacheFields, presets: Sequence[str], problems: list[Problem]) -> CacheFields:
    """Return the fields of a policy with those of its presets; add problems where presets are unknown or disagree."""
    fields = _leaves(own)
    dropped = {(EXCLUSIVE[path[0]],) for path in fields if path[0] in EXCLUSIVE}
    sources: dict[Path, str] = {}
    for name in presets:
        if name not in PRESETS:
            problems.append(_invalid(f"presets: {name} is unknown; use {', '.join(PRESETS)}"))
            continue
        for path, value in _leaves(PRESETS[name]).items():
            if path in dropped or (path in fields and path not in sources):
                continue
            if path in sources and fields[path] != value:
                problems.append(_invalid(_disagreement(sources[path], name, path)))
            fields[path], sources[path] = value, name
    if presets and fields.get(("unsafe_ignore_no_store_and_private",)):
        message = "presets: no preset stores private content; remove unsafeIgnoreNoStoreAndPrivate, or the presets"
        problems.append(_invalid(message))
    return _assembled(fields)


def field_name(path: Path) -> str:
    """Return a field, or a field of a part, as users write it."""
    first = encoded_name(CacheFields, path[0])
    return first if len(path) == 1 else f"{first}.{encoded_name(_PARTS[path[0]], path[1])}"


def encoded_name(struct: type[Struct], name: str) -> str:
    """Return a field as users write it."""
    return struct.__struct_encode_fields__[struct.__struct_fields__.index(name)]


def _disagreement(one: str, other: str, path: Path) -> str:
    field = field_name(path)
    return f"presets: {one} and {other} disagree about {field}; remove one of them, or set {field}"


def _invalid(message: str) -> Problem:
    return Problem("Invalid", message)


def _leaves(fields: CacheFields) -> dict[Path, Any]:
    """Return the fields that say something, those of the parts one by one."""
    leaves: dict[Path, Any] = {}
    for name in CacheFields.__struct_fields__:
        value = getattr(fields, name)
        if name in _PARTS and value is not None:
            inner = ((part, getattr(value, part)) for part in value.__struct_fields__)
            leaves |= {(name, part): found for part, found in inner if found is not None}
        elif value is not None:
            leaves[name,] = value
    return leaves


def _assembled(leaves: Mapping[Path, Any]) -> CacheFields:
    parts: dict[str, dict[str, Any]] = {name: {} for name in _PARTS}
    for path, value in leaves.items():
        if len(path) > 1:
            parts[path[0]][path[1]] = value
    whole = {path[0]: value for path, value in leaves.items() if len(path) == 1}
    return CacheFields(**whole, **{name: _PARTS[name](**part) for name, part in parts.items() if part})
