"""Small origins for tests: HTTP servers that answer with their name.

In:   requests of varnishd, on a free loopback port.
Out:  JSON that names the origin and the path; ``seen`` holds every request as it came.
"""

import contextlib
import json
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from varnish_gateway.ir import wire


@dataclass
class Seen:
    """A request as an origin saw it."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]


class Origin:
    """An HTTP server on a free port that answers with its name and remembers requests."""

    def __init__(self, name: str = "origin", *, headers: Sequence[tuple[str, str]] = (), status: int = 200) -> None:
        self.name = name
        self.headers = list(headers)
        self.status = status
        self.seen: list[Seen] = []
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.origin = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def endpoint(self) -> wire.Endpoint:
        return wire.Endpoint(address="127.0.0.1", port=self.port)

    @property
    def connections(self) -> int:
        """How many connections were made to it."""
        return self._server.connections

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.close_connections()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 512
    origin: Origin

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.connections = 0
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self.connections += 1
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def close_connections(self) -> None:
        with self._lock:
            connections = list(self._open)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that go away."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def handle_one_request(self) -> None:
        with contextlib.suppress(ConnectionError):
            super().handle_one_request()

    def _answer(self) -> None:
        origin = self.server.origin
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else self._chunks()
        origin.seen.append(Seen(self.command, self.path, list(self.headers.items()), body))
        answer = json.dumps({"origin": origin.name, "path": self.path}).encode()
        self.send_response_only(origin.status)
        for name, value in origin.headers:
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer)

    def _chunks(self) -> bytes:
        body = b""
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return body
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self._answer
        raise AttributeError(name)

    def log_message(self, *_: object) -> None:
        """Quiet."""
