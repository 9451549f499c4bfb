"""An endpoint that follows a script: late, wrong, or not at all.

In:   steps. The n-th request is answered by the n-th of them, and further ones by the last.
Out:  a loopback endpoint; ``requests`` holds what was received, ``times`` when, ``ports`` from which of the sender's.
"""

import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from typing import Self

from varnish_gateway.ir import wire

Step = Callable[[socket.socket, threading.Event], bool]
"""Answers on a connection, until the event at most; whether the connection goes on."""


def answer(status: int = 200, body: bytes = b"done", *, headers: Sequence[str] = ()) -> Step:
    lines = [f"HTTP/1.1 {status} Scripted", f"Content-Length: {len(body)}", *headers]

    def step(connection: socket.socket, _: threading.Event) -> bool:
        connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        return True

    return step


def late(seconds: float, then: Step) -> Step:
    def step(connection: socket.socket, stop: threading.Event) -> bool:
        return not stop.wait(seconds) and then(connection, stop)

    return step


def once(event: threading.Event, then: Step) -> Step:
    """Go on when the event is set."""

    def step(connection: socket.socket, stop: threading.Event) -> bool:
        while not event.wait(0.01):
            if stop.is_set():
                return False
        return then(connection, stop)

    return step


def together(count: int, then: Step) -> Step:
    """Go on when so many requests are here."""
    barrier = threading.Barrier(count)

    def step(connection: socket.socket, stop: threading.Event) -> bool:
        try:
            barrier.wait(10)
        except threading.BrokenBarrierError:
            return False
        return then(connection, stop)

    return step


def trickle(pieces: Sequence[bytes], every: float) -> Step:
    """Send pieces with pauses between them."""

    def step(connection: socket.socket, stop: threading.Event) -> bool:
        for piece in pieces:
            connection.sendall(piece)
            if stop.wait(every):
                return False
        return True

    return step


def close(_: socket.socket, __: threading.Event) -> bool:
    return False


def reset(connection: socket.socket, _: threading.Event) -> bool:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return False


def silence(_: socket.socket, stop: threading.Event) -> bool:
    return not stop.wait()


class ScriptedOrigin:
    def __init__(self, *steps: Step) -> None:
        self.requests: list[bytes] = []
        self.times: list[float] = []
        self.ports: list[int] = []
        self.connections = 0
        self._steps = steps
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._server = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._server.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._server.close()

    @property
    def endpoint(self) -> wire.Endpoint:
        return wire.Endpoint(address="127.0.0.1", port=self._server.getsockname()[1])

    @property
    def pauses(self) -> list[float]:
        """Seconds between one request and the next."""
        return [after - before for before, after in zip(self.times, self.times[1:], strict=False)]

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(0.05)
        with connection:
            try:
                port = connection.getpeername()[1]
                while (request := self._read(connection)) and self._step(request, port)(connection, self._stop):
                    pass
            except OSError:
                return

    def _step(self, request: bytes, port: int) -> Step:
        with self._lock:
            number = len(self.requests)
            self.ports.append(port)
            self.requests.append(request)
            self.times.append(time.monotonic())
        return self._steps[min(number, len(self._steps) - 1)]

    def _read(self, connection: socket.socket) -> bytes:
        """Return a request with its body; nothing where there is none."""
        received = b""
        while not _is_whole(received):
            try:
                piece = connection.recv(65536)
            except TimeoutError:
                if self._stop.is_set():
                    return b""
                continue
            if not piece:
                return b""
            received += piece
        return received


def _is_whole(received: bytes) -> bool:
    head, blank, body = received.partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    if b"transfer-encoding: chunked" in lines:
        return body.endswith(b"0\r\n\r\n")
    lengths = [int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:")]
    return bool(blank) and len(body) >= sum(lengths)
