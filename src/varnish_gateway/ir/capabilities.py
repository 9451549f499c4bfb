"""What pods understand beyond the previous version: one capability for each addition to the wire format.

In:   nothing; this is a table.
Out:  capabilities, each with the wire fields that it guards.

A chaperone reports the capabilities of its own package in /ready. The operator leaves out what a capability
guards until every pod of a Gateway reports it. A pod that reports none is of the previous version, the commit
that ``.previous`` names. A test compares ir/wire.py with that commit: a field that neither has is an error.

To add a field to the wire format, add a capability here that names it, and say in emit/withholding.py how
routing is expressed without it. When ``.previous`` moves to a release whose pods all report a capability,
delete that capability and what reads it: entries in emit/withholding.py and operator/plan/withholding.py, the
frame without cache policies in emit/vcl.py, and later ports in gateway.py, reconciler.py and port_changes.py of
operator/plan and in operator/execute/objects.py.
"""

from msgspec import Struct


class Capability(Struct, frozen=True):
    """``fields`` are ``Struct.field`` as on the wire. ``loss`` is what users notice until all pods report it."""

    name: str
    fields: tuple[str, ...]
    loss: str


def _of(struct: str, fields: str) -> tuple[str, ...]:
    return tuple(f"{struct}.{field}" for field in fields.split())


APPROXIMATE_RULES = Capability(
    "approximate-rules",
    fields=("Rule.approximate",),
    loss="invalid rules come after the valid ones, which changes the numbers of unnamed rules in cache keys",
)
REQUEST_RULES = Capability(
    "request-rules",
    fields=(
        "Routing.requests",
        "RequestRules.trustedHops",
        "RequestRules.trustedRanges",
        "RequestRules.mergeSlashes",
        "RequestRules.reject",
    ),
    loss="forwarding and paths of the GatewayClassParameters are not in force",
)
MANY_RETRIES = Capability(
    "many-retries",
    fields=(),  # more than PREVIOUS_ATTEMPTS in Retry.attempts
    loss="a request is retried 20 times at most",
)
SHARES = Capability(
    "shares",
    fields=(
        "RequestRules.shares",
        "WorkerShares.namespace",
        "WorkerShares.route",
        "WorkerShares.backend",
        "WorkerShares.webSockets",
        "WorkerShares.routeConnections",
        "WorkerShares.backendConnections",
    ),
    loss="shares of the GatewayClassParameters are not in force; each pod has the defaults of its version, or none",
)
CACHE_POLICIES = Capability(
    "cache-policies",
    fields=(
        "Rule.cache",
        "Listener.cache",
        *_of("CachePolicy", "name off defaultTTL forcedTTL unsafeIgnoreNoStoreAndPrivate statusTTLs heuristicPercent"),
        *_of("CachePolicy", "grace staleWhileRevalidate staleIfError keep jitterPercent hitForMiss cacheKey bypass"),
        *_of("CachePolicy", "setCookie requestCookies ignoreRequestDirectives revalidation exactVary tagHeaders"),
        *_of("CachePolicy", "cacheStatus maxObjectSize gzip esi"),
        *_of("StatusTTL", "status ttl"),
        *_of("CacheKey", "headers cookies queryParameters scheme listener"),
        *_of("QueryParameters", "include exclude"),
        *_of("Bypass", "headers cookies methods"),
        *_of("BypassHeader", "name valueRegex"),
        *_of("Revalidation", "perObject perRoute"),
    ),
    loss="cache policies are not in force, so the gateway caches nothing",
)
INVALIDATION_METHODS = Capability(
    "invalidation-methods",
    fields=("RequestRules.purgeRanges",),
    loss="invalidation.methods of the GatewayClassParameters is not in force; PURGE and BAN go to backends",
)
LATER_PORTS = Capability(
    "later-ports",
    fields=(),  # the pod opens the ports of new listeners itself
    loss="a port that a ListenerSet opens replaces all pods",
)
PREVIOUS_ATTEMPTS = 20
"""The most retries that pods without MANY_RETRIES limit in time and threads."""

CAPABILITIES = {
    one.name: one
    for one in (
        APPROXIMATE_RULES,
        REQUEST_RULES,
        MANY_RETRIES,
        SHARES,
        CACHE_POLICIES,
        INVALIDATION_METHODS,
        LATER_PORTS,
    )
}
"""By name."""
ALL = frozenset(CAPABILITIES)
NONE: frozenset[str] = frozenset()
"""What the previous version understands."""
