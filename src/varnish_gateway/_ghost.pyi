# The router and the regular expressions of ghost, compiled from ghost/ghost-python.
# Every function raises ValueError with the reason, in one line that names the field at fault.

from collections.abc import Sequence

# What a regular expression takes from the budget of its route, and why ghost rejects it (None if it doesn't).
def compile_regex(pattern: str) -> tuple[int, str | None]: ...

# What the distinct regular expressions of a route may take together; ghost enforces it too.
def route_regex_budget() -> int: ...

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
    # the listeners. A bad shard changes nothing.
    def update(self, shard: bytes) -> None: ...

    # Which rule serves a request and why the others do not, as JSON. The url is a target
    # ("/tea") or a whole URL, whose host counts unless headers name one. A request
    # that ghost would answer with 400 or 405 raises ValueError. The document:
    #
    # - host, target: as they are compared
    # - listener: a wire.Listener, or null
    # - winner: null (a 404), or its hostname, route (namespace/name), identity, ruleIndex, matchIndex,
    #   match (a wire.Match), rule (a wire.Rule), backends (each with pool or status, weight, probability),
    #   location (of a redirect, or null) and rewritten (target after the rule's rewrite, or null)
    # - preflight: whether the winner's CORS answers the request itself
    # - overBudget: null, or status and reason of the error that the request gets, because regular expressions
    #   take too many steps for it
    # - runnersUp: the other candidates, in the order of precedence: the winner's first six fields and a reason
    def explain(self, socket: str, method: str, url: str, headers: Sequence[tuple[str, str]]) -> bytes: ...
