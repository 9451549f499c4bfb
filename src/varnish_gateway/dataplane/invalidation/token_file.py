"""The tokens of clients that may invalidate, from a file.

In:   the path of a document of tokens, and the Authorization header of requests.
Out:  the Token that a request has, or None.

The file is looked at with each request, so a new, changed or deleted one counts at once. One that is wrong
changes nothing but the log. Tokens are kept as hashes, and a comparison takes as long for a wrong token as for a
right one.
"""

import hashlib
import hmac
import logging
from pathlib import Path

from msgspec import structs

from varnish_gateway import errors
from varnish_gateway.ir.tokens import Token, read_tokens
from varnish_gateway.runtime.paths import Signature, signature_of

LARGEST = 1 << 20
_SCHEME = "bearer"

log = logging.getLogger(__name__)


class TokenFile:
    """Without a path there are no tokens. ``setting`` names what holds the path, for the log."""

    def __init__(self, path: Path | None, setting: str) -> None:
        self._path = path
        self.setting = setting
        self._signature: Signature | None = None  # of what was read last
        self._tokens: dict[bytes, Token] = {}
        self._problem = ""

    def has_any(self) -> bool:
        """Whether there is a token with which clients may invalidate at present."""
        if self._path is not None:
            self._refresh(self._path)
        return bool(self._tokens)

    def holder(self, authorization: str | None) -> Token | None:
        """Return the token of a header ``Authorization: Bearer TOKEN``."""
        if (token := presented(authorization)) is None:
            return None
        digest = _digest(token)
        found = [token for known, token in self._tokens.items() if hmac.compare_digest(known, digest)]
        return found[0] if found else None

    def _refresh(self, path: Path) -> None:
        now = signature_of(str(path))
        if now is None:  # a user takes the tokens back
            self._signature, self._tokens = None, {}
            self._log_once("the file is not there, so no client may invalidate")
        elif now != self._signature:
            self._signature = now
            try:
                self._tokens = _read(path)
                self._problem = ""
                log.info("%s: %s has %d tokens", self.setting, path, len(self._tokens))
            except errors.BadDocument as error:
                self._log_once(f"{error}; the tokens from before count")
            except OSError as error:  # permissions may change without the file
                self._signature = None
                self._log_once(f"{error.strerror}; the tokens from before count")

    def _log_once(self, problem: str) -> None:
        if problem != self._problem:
            log.error("%s: %s: %s", self.setting, self._path, problem)
        self._problem = problem


def _read(path: Path) -> dict[bytes, Token]:
    """Return the tokens of a file by their hashes, without themselves."""
    with path.open("rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise errors.BadDocument(f"it has more than {LARGEST} bytes")
    return {_digest(token.token): structs.replace(token, token="") for token in read_tokens(content)}


def presented(authorization: str | None) -> str | None:
    """Return the token of a header, None where there is none."""
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() if scheme.lower() == _SCHEME else None


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()
