"""Policies for tests of the cache, and what Cache-Status says.

In:   fields of a policy; an answer.
Out:  a policy that tells every client what the cache did; its parameters.
"""

from typing import Any

from support.http.client import Answer
from varnish_gateway.ir import wire

NAME = "default/pages"


def policy(*, forced: bool = False, ttl: int = 60_000, **fields: Any) -> wire.CachePolicy:
    """Make a policy with a lifetime in milliseconds."""
    lifetime = {"forced_ttl": ttl} if forced else {"default_ttl": ttl}
    return wire.CachePolicy(name=NAME, **{**lifetime, "cache_status": "on", **fields})


def parameters(answer: Answer) -> dict[str, str]:
    """Return the parameters of Cache-Status; those without a value have an empty one."""
    (value,) = answer.values("cache-status")
    name, *parts = value.split("; ")
    assert name == "varnish-gateway"
    return {key: text.strip('"') for key, _, text in (part.partition("=") for part in parts)}


def outcome(answer: Answer) -> str:
    """Return ``hit``, or why the request was forwarded."""
    found = parameters(answer)
    return "hit" if "hit" in found else found["fwd"]


def reason(answer: Answer) -> str:
    """Return the words of the cache, without the policy."""
    return parameters(answer)["detail"].removeprefix(f"{NAME} ")
