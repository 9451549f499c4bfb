"""Who may invalidate what.

In:   the document of tokens, which a file holds; an invalidation.
Out:  Tokens, or BadDocument that names the field; what a token may not name; the invalidation within its scope.
Pure. No value of a token appears in an error or a ``repr``.

A scope is a list of namespaces and routes. Hosts, paths and tags of a token with a scope mean those objects alone
that its routes have stored: two namespaces may serve the same host or use the same tag.
"""

import re
from collections import Counter
from collections.abc import Iterator

import msgspec
from msgspec import UNSET, UnsetType, structs

from varnish_gateway import errors
from varnish_gateway.ir.invalidation import Invalidation, field_first, is_namespace, is_route
from varnish_gateway.ir.wire import Wire

SHORTEST = 16
"""Characters of a token: shorter ones can be guessed."""
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")


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
        in_namespace = self.covers_namespace(route.partition("/")[0])
        return in_namespace or (self.routes is not UNSET and route in self.routes)

    def covers_namespace(self, namespace: str) -> bool:
        """Whether all routes of a namespace are in its scope."""
        return not self.is_scoped or (self.namespaces is not UNSET and namespace in self.namespaces)


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
        if not is_namespace(namespace):
            yield f"namespaces[{number}]: write the name of a namespace"
    for number, route in enumerate(() if token.routes is UNSET else token.routes):
        if not is_route(route):
            yield f"routes[{number}]: write namespace/name"


def out_of_scope(invalidation: Invalidation, token: Token) -> str | None:
    """Return why a token may not ask for this, None if it may."""
    for field, name in _foreign(invalidation, token):
        return f"{field}: the token isn't for {name}; leave it out, or use a token that has it in its scope"
    return None


def within_scope(invalidation: Invalidation, token: Token) -> Invalidation:
    """Return an invalidation restricted to what the token is for, whatever serves at the moment.

    A token without a scope, or an invalidation that has a restriction within it, needs no further one.
    """
    if not token.is_scoped or invalidation.is_restricted:
        return invalidation
    return structs.replace(invalidation, routes=token.routes, namespaces=token.namespaces)


def _foreign(invalidation: Invalidation, token: Token) -> Iterator[tuple[str, str]]:
    """Yield the fields with routes and namespaces that the token isn't for."""
    for number, target in enumerate(invalidation.targets):
        if target.route is not UNSET and not token.covers(target.route):
            yield f"targets[{number}].route", target.route
    for number, route in enumerate(() if invalidation.routes is UNSET else invalidation.routes):
        if not token.covers(route):
            yield f"routes[{number}]", route
    for number, namespace in enumerate(() if invalidation.namespaces is UNSET else invalidation.namespaces):
        if not token.covers_namespace(namespace):
            yield f"namespaces[{number}]", namespace
