"""An origin that a test answers for.

In:   a function from a request to a response.
Out:  a loopback endpoint. ``idle`` waits until the gateway is done with every response: each ends its
      connection, and the gateway closes its side after it has stored what it stores.
"""

import http.client
import io
import socket
import socketserver
import threading
from collections.abc import Callable
from typing import Any, Self

from support.cache_model.messages import Request, Response
from varnish_gateway.ir import wire

SECONDS = 10.0
Planner = Callable[[Request], Response]


class PlannedOrigin(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.planner: Planner = lambda _: Response(status=500)
        self._open = 0
        self._changed = threading.Condition()

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.05,)).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    @property
    def endpoint(self) -> wire.Endpoint:
        return wire.Endpoint(address="127.0.0.1", port=self.server_address[1])

    def idle(self) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: not self._open, SECONDS), "the gateway isn't done with a response"

    def process_request(self, request: Any, client_address: Any) -> None:
        self._count(1)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self._count(-1)

    def _count(self, change: int) -> None:
        with self._changed:
            self._open += change
            self._changed.notify_all()


class _Handler(socketserver.BaseRequestHandler):
    server: PlannedOrigin

    def handle(self) -> None:
        self.request.settimeout(SECONDS)
        received = b""
        while b"\r\n\r\n" not in received:
            if not (piece := self.request.recv(65536)):
                return
            received += piece
        request = _request(received)
        self.request.sendall(_encoded(request, self.server.planner(request)))
        self.request.shutdown(socket.SHUT_WR)
        while self.request.recv(65536):
            pass


def _request(received: bytes) -> Request:
    line, _, rest = received.partition(b"\r\n")
    method, path, _ = line.decode().split(" ")
    headers = http.client.parse_headers(io.BytesIO(rest))
    return Request(method=method, path=path, headers=tuple(headers.items()))


def _encoded(request: Request, response: Response) -> bytes:
    body = response.body.encode()
    lines = [f"HTTP/1.1 {response.status} Planned", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in response.headers]
    if response.status not in {204, 304}:
        lines += [f"X-Body: {response.body}", f"Content-Length: {len(body)}"]
    elif response.status == 204:
        lines += [f"X-Body: {response.body}"]
    has_body = request.method != "HEAD" and response.status not in {204, 304}
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body if has_body else b"")
