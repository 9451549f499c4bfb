"""Compile the patterns of a cache policy: its regular expressions and globs.

In:   a wire.CachePolicy.
Out:  CompiledCachePolicy, which is an object like any other: an input of translation.

Pure. Compiling takes up to some milliseconds, so a program with an event loop compiles on a thread, as it does for
routes. ghost judges the whole policy in passing, with the words that its users read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from msgspec import json

from varnish_gateway._ghost import compile_cache_policy, route_regex_budget
from varnish_gateway.api import Object, VarnishCachePolicy
from varnish_gateway.api.meta import Metadata
from varnish_gateway.ir import wire
from varnish_gateway.translate.policy.cache_fields import translate_fields

if TYPE_CHECKING:
    from collections.abc import Mapping

ROUTE_BUDGET = route_regex_budget()
POLICY_BUDGET = ROUTE_BUDGET // 8
"""What the patterns of one policy may take, so that a route with several policies stays within its own budget."""

_encode = json.Encoder().encode


class CompiledCachePolicy(Object, frozen=True):
    """Of the policy with this name. ``charge`` is what its patterns take; ``fault`` is why ghost rejects the policy."""

    kind: ClassVar[str] = "CompiledCachePolicy"
    source: wire.CachePolicy
    charge: int = 0
    fault: str | None = None


def has_patterns(policy: wire.CachePolicy) -> bool:
    """Whether there is anything that takes time to compile."""
    parameters = policy.cache_key.query_parameters
    regexes = any(one.value_regex is not None for one in policy.bypass.headers)
    return bool(regexes or policy.bypass.cookies or parameters.include or parameters.exclude)


def compile_patterns(policy: wire.CachePolicy, metadata: Metadata) -> CompiledCachePolicy:
    """Compile a policy; ``metadata`` has its name."""
    charge, fault = compile_cache_policy(_encode(policy))
    if charge > POLICY_BUDGET:
        fault = (
            f"its regular expressions and globs take {charge:,} bytes when compiled, more than the budget of "
            f"{POLICY_BUDGET:,}; use fewer or simpler ones"
        )
    named = Metadata(name=metadata.name, namespace=metadata.namespace)
    return CompiledCachePolicy(metadata=named, source=policy, charge=0 if fault else charge, fault=fault)


def compile_policy(policy: VarnishCachePolicy) -> CompiledCachePolicy:
    """Compile a policy as the user wrote it."""
    return compile_patterns(translate_fields(policy)[0], policy.metadata)


def charges(policy: wire.CachePolicy, charge: int) -> Mapping[str, int]:
    """Return what the patterns of a policy are charged as; equal ones cost once."""
    if not charge:
        return {}
    return {_encode((policy.bypass, policy.cache_key.query_parameters)).decode(): charge}
