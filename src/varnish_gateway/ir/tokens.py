"""Who may invalidate what.

In:   the document of tokens, which a file holds; an invalidation, and the routes that serve.
Out:  Tokens, or BadDocument that names the field; what a token may not name; the invalidation within its scope.
Pure. No value of a token appears in an error or a ``repr``.

A scope is a list of namespaces and routes. Hosts, paths and tags of a token with a scope mean those objects alone
that its routes have stored: two namespaces may serve the same host or use the same tag.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec
from msgspec import UNSET, UnsetType, structs

from varnish_gateway import errors
from varnish_gateway.ir.invalidation import Invalidation, field_first, is_route
from varnish_gateway.ir.wire import Wire

SHORTEST = 16
"""Characters of a token: shorter ones can be guessed."""
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


class Token(Wire, frozen=True):
    """``name`` is what the log calls it. Without ``namespaces`` and ``routes`` it may name everything."""

    name: str
    token: str
    namespaces: tuple[str, ...] | UnsetType = UNSET
    routes: tuple[str, ...] | UnsetType = UNSET  # "namespace/name"

    def __repr__(self) -> str:
        return f"Token({self.name!r})"

    @property
    def is_scoped(self) -> bool:
        return not (self.namespaces is UNSET and self.routes is UNSET)

    def covers(self, route: str) -> bool:
        """Whether a route is in its scope."""
        in_namespace = self.namespaces is not UNSET and route.partition("/")[0] in self.namespaces
        return not self.is_scoped or in_namespace or (self.routes is not UNSET and route in self.routes)


class TokenDocument(Wire, frozen=True):
    tokens: tuple[Token, ...]


_decode = msgspec.json.Decoder(TokenDocument).decode


def read_tokens(content: bytes) -> tuple[Token, ...]:
    """Decode and check a document of tokens; raise BadDocument."""
    try:
        tokens = _decode(content).tokens
    except (ValueError, RecursionError) as error:
        # msgspec quotes the name of an unknown field, which may be a token in the wrong place.
        reason = re.sub("unknown field `.*?`", "another field than name, token, namespaces and routes", str(error))
        raise errors.BadDocument(field_first(reason)) from None
    for fault in _faults(tokens):
        raise errors.BadDocument(fault)
    return tokens


def _faults(tokens: tuple[Token, ...]) -> Iterator[str]:
    for field in ("name", "token"):
        counts = Counter(getattr(token, field) for token in tokens)
        for number, token in enumerate(tokens):
            if counts[getattr(token, field)] > 1:
                yield f"tokens[{number}].{field}: another one has the same"
    for number, token in enumerate(tokens):
        for fault in _token_faults(token):
            yield f"tokens[{number}].{fault}"


def _token_faults(token: Token) -> Iterator[str]:
    if not token.name.isprintable() or not token.name:
        yield "name: write a word for the log"
    if len(token.token) < SHORTEST or _TOKEN.fullmatch(token.token) is None:
        yield f"token: write {SHORTEST} letters, digits or -._~+/ at least, such as `openssl rand -hex 32` prints"
    for field, scope in (("namespaces", token.namespaces), ("routes", token.routes)):
        if scope == ():
            yield f"{field}: it is empty; name what the token is for, or delete the token"
    for number, namespace in enumerate(() if token.namespaces is UNSET else token.namespaces):
        if _NAMESPACE.fullmatch(namespace) is None:
            yield f"namespaces[{number}]: write the name of a namespace"
    for number, route in enumerate(() if token.routes is UNSET else token.routes):
        if not is_route(route):
            yield f"routes[{number}]: write namespace/name"


def out_of_scope(invalidation: Invalidation, token: Token) -> str | None:
    """Return why a token may not ask for this, None if it may."""
    named = [(f"targets[{number}].route", target.route) for number, target in enumerate(invalidation.targets)]
    named += [(f"routes[{number}]", route) for number, route in enumerate(_routes(invalidation))]
    for field, route in named:
        if isinstance(route, str) and not token.covers(route):
            return f"{field}: the token isn't for {route}; leave it out, or use a token that has it in its scope"
    return None


def within_scope(invalidation: Invalidation, token: Token, served: Iterable[str]) -> Invalidation:
    """Return an invalidation restricted to what the token is for, of the routes that serve and those it names.

    A token without a scope, or an invalidation that names its routes, needs no further restriction.
    """
    if not token.is_scoped or invalidation.routes is not UNSET:
        return invalidation
    routes = {route for route in served if token.covers(route)}
    routes |= set(() if token.routes is UNSET else token.routes)
    return structs.replace(invalidation, routes=tuple(sorted(routes)))


def _routes(invalidation: Invalidation) -> tuple[str, ...]:
    return () if invalidation.routes is UNSET else invalidation.routes
