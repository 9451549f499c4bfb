"""Fill a cache fast: pipelined requests on many connections."""

import itertools
import selectors
import socket
from collections.abc import Iterable, Iterator

CONNECTIONS = 64
DEPTH = 20
"""Requests that a connection has under way."""
OK = b"HTTP/1.1 200 OK\r\n"


def fill(port: int, requests: Iterable[bytes], body: bytes) -> None:
    """Send every request once; each response is a 200 with this body. Return with the last one."""
    batches = _batches(requests)
    with selectors.DefaultSelector() as selector:
        for batch in itertools.islice(batches, CONNECTIONS):
            connection = _Connection(port, body)
            selector.register(connection.socket, selectors.EVENT_READ, connection)
            connection.send(batch)
        while selector.get_map():
            for key, _ in selector.select(timeout=60) or _fail("no response within 60 s"):
                if not key.data.is_complete():
                    continue
                if batch := next(batches, None):
                    key.data.send(batch)
                else:
                    selector.unregister(key.fileobj)
                    key.data.socket.close()


class _Connection:
    """A connection, and the responses that it waits for."""

    def __init__(self, port: int, body: bytes) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._body, self._expected, self._received = body, 0, b""

    def send(self, requests: list[bytes]) -> None:
        self._expected, self._received = len(requests), b""
        self.socket.sendall(b"".join(requests))

    def is_complete(self) -> bool:
        """Read; return whether the last response is here."""
        piece = self.socket.recv(1 << 16)
        self._received += piece
        if not piece:
            _fail(f"a response is missing or wrong: {self._received[-1000:]!r}")
        return self._received.endswith(self._body) and self._received.count(OK) == self._expected


def _batches(requests: Iterable[bytes]) -> Iterator[list[bytes]]:
    left = iter(requests)
    while batch := list(itertools.islice(left, DEPTH)):
        yield batch


def _fail(reason: str) -> list[tuple[selectors.SelectorKey, int]]:
    raise RuntimeError(reason)
