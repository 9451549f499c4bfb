"""Explain what the cache does with a request and a response to it.

In:   the answer of the router, and the response of an origin if there is one.
Out:  ``CacheExplanation``: the policy in force and its source, the key, and whether the response is stored.
The functions of ghost that serve traffic decide.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from varnish_gateway._ghost import explain_cache
from varnish_gateway.api import Key, Object, VarnishCachePolicy
from varnish_gateway.ir import wire
from varnish_gateway.translate.policy import attachment
from varnish_gateway.translate.policy.attachment import AttachmentTarget

Lines = Sequence[tuple[str, str]]


class CacheDecision(msgspec.Struct):
    """A word that never changes, and a sentence."""

    word: str
    reason: str


class CachedObject(msgspec.Struct, rename="camel"):
    """How a response is stored; durations are milliseconds."""

    lifetime: int
    age: int
    grace: int
    grace_reason: str
    stale_if_error: int
    stale_if_error_reason: str
    keep: int
    must_revalidate: bool
    always_revalidate: bool
    removes_set_cookie: bool


class CacheVerdict(CacheDecision, rename="camel"):
    stored: bool
    hit_for_miss: int = 0
    object: CachedObject | None = None


class OverBudget(msgspec.Struct, kw_only=True):
    """The error for a request that rules or their cache policy take too many steps for."""

    status: int
    reason: str


class CacheAnswer(msgspec.Struct, rename="camel"):
    """The answer of ghost; see _ghost.pyi."""

    over_budget: OverBudget | None = None
    bypass: CacheDecision | None = None
    key: list[tuple[str, str]] = []
    removed: list[str] = []
    response: CacheVerdict | None = None


@dataclass(frozen=True)
class OriginResponse:
    """A response that an origin may send."""

    status: int
    headers: Lines


@dataclass(frozen=True)
class CacheExplanation:
    """``policy`` is None where nothing is cached. ``target`` is what it is for.

    ``answer`` is None where no policy is in force.
    """

    policy: wire.CachePolicy | None
    target: AttachmentTarget | None
    answer: CacheAnswer | None = None


@dataclass(frozen=True)
class CacheQuestion:
    """A request as the router compared it, and the rule that serves it."""

    method: str
    headers: Lines
    authority: str
    """The host as the client sends it, with a port."""
    path: str
    identity: str
    rule: wire.Rule
    listener: wire.Listener
    steps: int
    """What its routes have left of its budget."""


def explain_caching(
    question: CacheQuestion, response: OriginResponse | None, objects: Mapping[Key, Object | None]
) -> CacheExplanation:
    """Return what the cache does. The policy of a rule replaces that of its listener."""
    policy = question.rule.cache or question.listener.cache
    if policy is None:
        return CacheExplanation(None, None)
    target = _target(policy, objects)
    if policy.off:
        return CacheExplanation(policy, target)
    asked: dict[str, Any] = {
        "method": question.method,
        "headers": question.headers,
        "rule": question.identity,
        "listener": question.listener.name,
        "https": question.listener.scheme == "https",
        "authority": question.authority,
        "target": question.path,
        "steps": question.steps,
        "now": int(time.time() * 1000),
        "response": None if response is None else {"status": response.status, "headers": response.headers},
    }
    answer = explain_cache(msgspec.json.encode(policy), msgspec.json.encode(asked))
    return CacheExplanation(policy, target, msgspec.json.decode(answer, type=CacheAnswer))


def _target(policy: wire.CachePolicy, objects: Mapping[Key, Object | None]) -> AttachmentTarget | None:
    namespace, _, name = policy.name.partition("/")
    key = Key(VarnishCachePolicy.kind, namespace, name)
    found = objects.get(key)
    if not isinstance(found, VarnishCachePolicy):
        return None
    target = attachment.target_of(key, found.spec.target_ref)
    return target if isinstance(target, AttachmentTarget) else None
