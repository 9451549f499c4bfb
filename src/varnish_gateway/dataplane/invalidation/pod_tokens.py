"""The tokens that count in a gateway pod: those of a file, and the one of the operator.

In:   the file of clients' tokens; the operator's token, as the Gateway's Secret has it at the moment.
Out:  the Token that a request has, or None. The operator's is for everything.
"""

import hmac
from collections.abc import Callable

from varnish_gateway.dataplane.invalidation.token_file import TokenFile
from varnish_gateway.dataplane.invalidation.token_set import presented
from varnish_gateway.ir.tokens import SHORTEST, Token

OPERATOR = Token(name="the operator", token="")


class PodTokens:
    """A token of the operator that is "", or too short to be one of its own, lets no request in."""

    def __init__(self, file: TokenFile, operator_token: Callable[[], str]) -> None:
        self._file = file
        self._operator_token = operator_token

    @property
    def setting(self) -> str:
        return self._file.setting

    def has_any(self) -> bool:
        """Whether there is a token with which clients may invalidate at present."""
        return self._file.has_any() or len(self._operator_token()) >= SHORTEST

    def holder(self, authorization: str | None) -> Token | None:
        """Return the token of a header ``Authorization: Bearer TOKEN``."""
        expected, token = self._operator_token(), presented(authorization)
        if token is None:
            return None
        is_operator = hmac.compare_digest(token.encode(errors="surrogateescape"), expected.encode())
        if is_operator and len(expected) >= SHORTEST:
            return OPERATOR
        return self._file.holder(authorization)
