"""The token that every request carries.

In:   a file, which Kubernetes replaces from time to time, or a fixed token.
Out:  the headers to send.
"""

import logging

from multidict import CIMultiDict

from varnish_gateway.kube.connection import Connection

JSON = "application/json"

log = logging.getLogger(__name__)


class Credentials:
    def __init__(self, connection: Connection, user_agent: str) -> None:
        self._file = connection.token_file
        self._read_at: int | None = None
        self._headers = {"User-Agent": user_agent}
        self._by_type: dict[tuple[str, str], CIMultiDict[str]] = {}
        if connection.token:
            self._headers["Authorization"] = f"Bearer {connection.token}"

    def headers(self, content_type: str = "", accept: str = JSON) -> CIMultiDict[str]:
        """Return headers for a pair of types. They are cached per token, so callers must not modify them."""
        self._refresh()
        if (found := self._by_type.get((content_type, accept))) is None:
            typed = {"Accept": accept} | ({"Content-Type": content_type} if content_type else {})
            found = self._by_type[content_type, accept] = CIMultiDict(self._headers | typed)
        return found

    def forget(self) -> None:
        """Read the file again before the next request: the API server no longer accepts the token."""
        self._read_at = None

    def _refresh(self) -> None:
        """Read the file if it has changed; if that fails, keep the last token."""
        if self._file is None:
            return
        try:
            if (stamp := self._file.stat().st_mtime_ns) == self._read_at:
                return
            token = self._file.read_text().strip()
        except OSError as error:
            log.warning("can't read the token file %s: %s", self._file, error.strerror)
            return
        self._read_at = stamp
        self._headers["Authorization"] = f"Bearer {token}"
        self._by_type.clear()
