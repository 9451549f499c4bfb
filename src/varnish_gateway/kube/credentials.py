"""The token that goes with every request.

In:   a file, which Kubernetes replaces from time to time, or a token that stays.
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
        self._seen: int | None = None
        self._headers = {"User-Agent": user_agent}
        self._by_type: dict[tuple[str, str], CIMultiDict[str]] = {}
        if connection.token:
            self._headers["Authorization"] = f"Bearer {connection.token}"

    def headers(self, content_type: str = "", accept: str = JSON) -> CIMultiDict[str]:
        """Return headers that nobody may change; built once for each token and what is sent and asked for."""
        self._refresh()
        if (found := self._by_type.get((content_type, accept))) is None:
            typed = {"Accept": accept} | ({"Content-Type": content_type} if content_type else {})
            found = self._by_type[content_type, accept] = CIMultiDict(self._headers | typed)
        return found

    def forget(self) -> None:
        """Read the file again before the next request: the API server does not know the token any more."""
        self._seen = None

    def _refresh(self) -> None:
        """Read the file if it has changed; one that can't be read leaves the last token."""
        if self._file is None:
            return
        try:
            if (stamp := self._file.stat().st_mtime_ns) == self._seen:
                return
            token = self._file.read_text().strip()
        except OSError as error:
            log.warning("can't read the token file %s: %s", self._file, error.strerror)
            return
        self._seen = stamp
        self._headers["Authorization"] = f"Bearer {token}"
        self._by_type.clear()
