"""The tokens of one document, and which of them a request has.

In:   a document of tokens; the Authorization header of requests.
Out:  the Token that a request has, or None; BadDocument for a wrong document.

Tokens are kept as hashes and looked up by them, so that neither the time nor the memory of this process tells a
client anything about a token that it does not have, and a request costs the same however many tokens there are.
"""

import hashlib

from msgspec import structs

from varnish_gateway.ir.tokens import Token, read_tokens

_SCHEME = "bearer"


class TokenSet:
    """Without a document there are no tokens."""

    def __init__(self, document: bytes | None = None) -> None:
        tokens = () if document is None else read_tokens(document)
        self._tokens = {_digest(token.token): structs.replace(token, token="") for token in tokens}

    def __len__(self) -> int:
        return len(self._tokens)

    def holder(self, authorization: str | None) -> Token | None:
        """Return the token of a header ``Authorization: Bearer TOKEN``."""
        token = presented(authorization)
        return None if token is None else self._tokens.get(_digest(token))


NONE = TokenSet()


def presented(authorization: str | None) -> str | None:
    """Return the token of a header, None where there is none."""
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() if scheme.lower() == _SCHEME else None


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()
