"""Compile the patterns of an object: a route's matches, a policy's conditions.

In:   an object of ``ir.Delta.uncompiled``.
Out:  the compiled object, an input of the next translation, and its key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from varnish_gateway.api import HTTPRoute, Key, VarnishCachePolicy
from varnish_gateway.translate.policy.cache_patterns import CompiledCachePolicy, compile_policy
from varnish_gateway.translate.route.compiled_matches import CompiledMatches, compile_matches

if TYPE_CHECKING:
    from varnish_gateway.api import Object

_RESULTS = {HTTPRoute.kind: CompiledMatches.kind, VarnishCachePolicy.kind: CompiledCachePolicy.kind}


def compile_object(source: Object) -> Object:
    """Compile the patterns of a route or policy."""
    if isinstance(source, VarnishCachePolicy):
        return compile_policy(source)
    return compile_matches(cast("HTTPRoute", source))


def compiled_key(source: Key) -> Key:
    """Return the key of what is compiled of a route or policy."""
    return Key(_RESULTS[source.kind], source.namespace, source.name)
