"""Lines of ``vgw explain`` about the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from varnish_gateway.ir import wire
    from varnish_gateway.standalone.cache_explanation import CachedObject, CacheExplanation, CacheVerdict

DURATIONS = frozenset(
    {"defaultTTL", "forcedTTL", "grace", "staleWhileRevalidate", "staleIfError", "keep", "hitForMiss", "ttl"}
)
UNCACHED = "nothing is cached: no VarnishCachePolicy is for this rule, its route, the listener or the Gateway"


def cache_rows(found: CacheExplanation) -> Iterator[tuple[str, str]]:
    """Return labels and texts about the policy in force and what it does."""
    policy = found.policy
    if policy is None:
        yield "Cache", UNCACHED
        return
    source = f", which is for {found.target}" if found.target is not None else ""
    yield "Cache", f"VarnishCachePolicy {policy.name}{source}"
    answer = found.answer
    if answer is None:
        yield "", "nothing is cached: the policy is invalid, see its status"
        return
    yield "", ", ".join(_fields(policy))
    if answer.over_budget is not None:
        yield "Answer", f"{answer.over_budget.status}, {answer.over_budget.reason}"
        return
    if answer.bypass is not None:
        yield "Passes", f"{answer.bypass.reason} ({answer.bypass.word})"
        return
    yield "Key", ", ".join(f"{part} {value!r}" for part, value in answer.key)
    for name in answer.removed:
        yield "Removed", f"request header {name}: it isn't part of the key, so the origin doesn't get it"
    if answer.response is not None:
        yield from _verdict(answer.response)


def _verdict(verdict: CacheVerdict) -> Iterator[tuple[str, str]]:
    reason = f"{verdict.reason} ({verdict.word})"
    if verdict.object is None:
        yield "Response", f"not stored: {reason}"
        yield "", f"requests for it don't wait for each other for {seconds(verdict.hit_for_miss)}"
        return
    stored = verdict.object
    yield "Response", f"stored, fresh for {seconds(max(0, stored.lifetime - stored.age))}: {reason}"
    yield from (("", line) for line in _facts(stored))


def _facts(stored: CachedObject) -> Iterator[str]:
    if stored.age:
        yield f"it is {seconds(stored.age)} old on arrival, of a lifetime of {seconds(stored.lifetime)}"
    if stored.always_revalidate:
        yield "it is validated before each use"
    if stored.grace:
        yield f"then used for {seconds(stored.grace)} while the gateway fetches a new one: {stored.grace_reason}"
    if stored.stale_if_error:
        yield f"used for {seconds(stored.stale_if_error)} if the origin fails: {stored.stale_if_error_reason}"
    if stored.must_revalidate:
        yield "clients can't ask for a stale one by max-stale"
    if stored.removes_set_cookie:
        yield "it is stored without Set-Cookie"


def _fields(policy: wire.CachePolicy) -> Iterator[str]:
    document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(policy))
    document.pop("name", None)
    yield from _flat(document, "")


def _flat(document: Mapping[str, Any], before: str) -> Iterator[str]:
    for name, value in document.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        elif name in DURATIONS:
            yield f"{before}{name} {seconds(value)}"
        elif isinstance(value, list):
            yield f"{before}{name} [{', '.join(map(_entry, value))}]"
        else:
            yield f"{before}{name} {str(value).lower() if isinstance(value, bool) else value}"


def _entry(entry: object) -> str:
    return f"{{{', '.join(_flat(entry, ''))}}}" if isinstance(entry, dict) else str(entry)


def seconds(milliseconds: int) -> str:
    """Return a duration as users read it."""
    return f"{milliseconds / 1000:,g} s" if milliseconds < 1_000_000 else f"{milliseconds // 1000:,} s"
