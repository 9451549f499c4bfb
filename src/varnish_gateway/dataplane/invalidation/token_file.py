"""The tokens of clients that may invalidate, from a file.

In:   the path of a document of tokens, and the Authorization header of requests.
Out:  the Token that a request has, or None.

The file is looked at with each request, so a new, changed or deleted one counts at once. One that is wrong
changes nothing but the log.
"""

import logging
from pathlib import Path

from varnish_gateway import errors
from varnish_gateway.dataplane.invalidation.token_set import NONE, TokenSet
from varnish_gateway.ir.tokens import Token
from varnish_gateway.runtime.paths import Signature, signature_of

LARGEST = 1 << 20

log = logging.getLogger(__name__)


class TokenFile:
    """Without a path there are no tokens. ``setting`` names what holds the path, for the log."""

    def __init__(self, path: Path | None, setting: str) -> None:
        self._path = path
        self.setting = setting
        self._signature: Signature | None = None  # of what was read last
        self._tokens = NONE
        self._problem = ""

    def has_any(self) -> bool:
        """Whether there is a token with which clients may invalidate at present."""
        if self._path is not None:
            self._refresh(self._path)
        return bool(self._tokens)

    def holder(self, authorization: str | None) -> Token | None:
        """Return the token of a header ``Authorization: Bearer TOKEN``."""
        return self._tokens.holder(authorization)

    def _refresh(self, path: Path) -> None:
        now = signature_of(str(path))
        if now is None:  # a user takes the tokens back
            self._signature, self._tokens = None, NONE
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


def _read(path: Path) -> TokenSet:
    with path.open("rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise errors.BadDocument(f"it has more than {LARGEST} bytes")
    return TokenSet(content)
