# The router and the regular expressions of ghost, compiled from ghost/ghost-python.
# Every function raises ValueError with the reason, in one line that names the field at fault.

from collections.abc import Sequence

# What a regular expression takes from the budget of its route, and why ghost rejects it (None if it doesn't).
# Compiling releases the GIL, so that a thread that calls this holds no event loop.
def compile_regex(pattern: str) -> tuple[int, str | None]: ...

# What the distinct regular expressions of a route may take together; ghost enforces it too.
def route_regex_budget() -> int: ...

# What the patterns of a wire.CachePolicy take from the budget of a route, and why ghost rejects the policy, as
# "field: message". Compiling releases the GIL too.
def compile_cache_policy(document: bytes) -> tuple[int, str | None]: ...

# What the cache does under a wire.CachePolicy, as JSON. The question is a document with method, headers (pairs), rule
# (its identity), listener, https, authority (the host as the client sends it, with a port), target, steps (stepsLeft
# of the router's explanation), now (milliseconds since 1970), and response: null, or status and headers. Durations
# are milliseconds. The answer:
#
# - overBudget: null, or status and reason of the error that the request gets, because rules and policy take too many
#   steps for it; then the rest is empty
# - bypass: null, or word and reason why the request passes the cache
# - key: pairs of what tells responses apart and its value; empty if the request passes
# - removed: request headers that don't reach the origin
# - response: null, or stored, word, reason, and hitForMiss or object (lifetime, age, grace, graceReason,
#   staleIfError, staleIfErrorReason, keep, mustRevalidate, alwaysRevalidate, removesSetCookie)
def explain_cache(policy: bytes, question: bytes) -> bytes: ...

# Whether ghost accepts document as a wire.Routing, its regular expressions included.
def check_routing(document: bytes) -> None: ...

# Whether ghost accepts document as a wire.Endpoints.
def check_endpoints(document: bytes) -> None: ...

# Whether ghost accepts document as ghost.json, of version 1 or 2.
def check_config(document: bytes) -> None: ...

# The router of ghost, for tools that ask what it would do.
class Router:
    def __init__(self) -> None: ...

    # Load a routing shard in place of the one with the same number; shard 0 also replaces
    # the listeners and what the Gateway asks of paths. A bad shard changes nothing.
    def update(self, shard: bytes) -> None: ...

    # Which rule serves a request and why the others do not, as JSON. The url is a target
    # ("/tea") or a whole URL, whose host counts unless headers name one. A request
    # that ghost would answer with 400 or 405 raises ValueError. The document:
    #
    # - host, target: as they are compared
    # - authority: the host as the client sends it, with a port
    # - listener: a wire.Listener, or null
    # - winner: null (a 404), or its hostname, route (namespace/name), identity, ruleIndex, matchIndex,
    #   match (a wire.Match), rule (a wire.Rule), backends (each with pool or status, weight, probability),
    #   location (of a redirect, or null) and rewritten (target after the rule's rewrite, or null)
    # - preflight: whether the winner's CORS answers the request itself
    # - overBudget: null, or status and reason of the error that the request gets, because regular expressions
    #   take too many steps for it
    # - stepsLeft: of the request's budget, for the questions to a cache policy
    # - runnersUp: the other candidates, in the order of precedence: the winner's first six fields and a reason
    def explain(self, socket: str, method: str, url: str, headers: Sequence[tuple[str, str]]) -> bytes: ...

# The decisions of the cache, one by one, for tests that compare them with a model of the RFCs. Times are
# milliseconds since 1970.
class CacheDecisions:
    # A wire.CachePolicy as JSON.
    def __init__(self, policy: bytes) -> None: ...

    # Why a request passes the cache.
    def bypass(self, method: str, request: Sequence[tuple[str, bytes]]) -> str | None: ...

    # The object that a response becomes, or None, and the word for the reason. A request is its method and
    # headers, a response its status and headers, the times are those of both.
    def store(
        self,
        request: tuple[str, Sequence[tuple[str, bytes]]],
        response: tuple[int, Sequence[tuple[str, bytes]]],
        times: tuple[int, int],
    ) -> tuple[CacheObject | None, str]: ...

    # "hit", "refresh", "validate", "miss" or "timeout", and the word for the reason.
    def lookup(self, stored: CacheObject | None, request: Sequence[tuple[str, bytes]], now: int) -> tuple[str, str]: ...

    # Whether a request has the fields by which the response of an object varies.
    def fits(self, stored: CacheObject, request: Sequence[tuple[str, bytes]]) -> bool: ...

class CacheObject:
    # Whole seconds of its age.
    def age(self, now: int) -> int: ...

    # Whether it takes the place of an error of the origin.
    def answers_error(self, background: bool, now: int) -> bool: ...

    # The status with which it answers a request.
    def answer(self, request: Sequence[tuple[str, bytes]]) -> int: ...

    # Its fields after a 304; None if that doesn't speak of it.
    def freshened(self, not_modified: Sequence[tuple[str, bytes]]) -> list[tuple[str, bytes]] | None: ...

    # Whether a response to HEAD shows that it is outdated.
    def is_outdated(self, head: Sequence[tuple[str, bytes]]) -> bool: ...

# The paths that a response makes stale; the target is host and path.
def invalidated_paths(
    method: str, target: tuple[str, str], response: tuple[int, Sequence[tuple[str, bytes]]]
) -> list[str]: ...
