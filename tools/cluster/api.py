"""Ask the API server, as its administrator, over one connection: what needs to be quicker than kubectl."""

import contextlib
import http.client
import json
import ssl
from collections.abc import Iterator
from typing import Any

from cluster import layout
from cluster.errors import Refused

Document = dict[str, Any]
WATCH_SECONDS = 300


class Api:
    """Not for several threads at once."""

    def __init__(self) -> None:
        self._trust = ssl.create_default_context(cafile=layout.PKI / "ca.crt")
        self._trust.load_cert_chain(layout.PKI / "admin.crt", layout.PKI / "admin.key")
        self._link = self._connection()

    def close(self) -> None:
        self._link.close()

    def get(self, path: str) -> Document:
        return self.request("GET", path)

    def create(self, path: str, document: Document) -> Document:
        return self.request("POST", path, document)

    def apply(self, path: str, document: Document) -> Document:
        """Server-side apply at the path of an object."""
        return self.request("PATCH", f"{path}?fieldManager=test&force=true", document, "application/apply-patch+yaml")

    def merge(self, path: str, document: Document) -> Document:
        """JSON merge patch at the path of an object."""
        return self.request("PATCH", path, document, "application/merge-patch+json")

    def delete(self, path: str) -> None:
        """Delete an object, or do nothing if it is gone."""
        with contextlib.suppress(Refused):
            self.request("DELETE", path)

    def request(
        self, method: str, path: str, body: Document | None = None, content_type: str = "application/json"
    ) -> Document:
        text = None if body is None else json.dumps(body)
        try:
            status, content = self._exchange(method, path, text, content_type)
        except (ConnectionError, ssl.SSLEOFError):  # the server has closed a connection that was idle
            status, content = self._exchange(method, path, text, content_type)
        if status >= 300:
            raise Refused(f"{method} {path}", status, content.decode(errors="replace"))
        return dict(json.loads(content))

    def _exchange(self, method: str, path: str, text: str | None, content_type: str) -> tuple[int, bytes]:
        try:
            self._link.request(method, path, text, {"Content-Type": content_type})
            answer = self._link.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            self._link.close()  # it opens again by itself
            raise

    def watch(self, path: str, version: str) -> Iterator[Document]:
        """Yield changes after a resource version, for some minutes."""
        with contextlib.closing(self._connection()) as link:
            link.request("GET", f"{path}?watch=1&resourceVersion={version}&timeoutSeconds={WATCH_SECONDS}")
            for line in link.getresponse():
                yield json.loads(line)

    def _connection(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(
            layout.NODE_ADDRESS, layout.API_PORT, context=self._trust, timeout=WATCH_SECONDS + 30
        )
