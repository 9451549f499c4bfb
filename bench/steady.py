"""Steady traffic of hits and a few misses, as a process: ``python steady.py JSON``.

In:   an Order; a byte, or the end, of standard input stops it.
Out:  JSON: when each request was sent, and the milliseconds until its response was complete.

Requests go out at a rate, whatever the server does. One that finds no connection idle counts from the moment at which
it was due. Any response other than a 200 is an error.
"""

import collections
import itertools
import json
import select
import socket
import sys
import time
from collections.abc import Iterator, Sequence

from msgspec import Struct, convert, to_builtins

CONNECTIONS = 256
"""Requests that may be under way. Each connection is used more often than the server closes idle ones."""
MISS_EVERY = 20


class Order(Struct, frozen=True):
    """Where to send requests, and how many a second."""

    port: int
    rate: float
    hits: Sequence[str]
    """Raw requests."""
    miss: str
    """A raw request; ``NUMBER`` becomes another number in each."""
    body: int
    """The length of every response's body."""

    @property
    def words(self) -> tuple[str, ...]:
        """The command line that carries it out."""
        return (sys.executable, __file__, json.dumps(to_builtins(self)))

    def requests(self) -> Iterator[bytes]:
        hits = itertools.cycle([request.encode() for request in self.hits])
        for number in itertools.count():
            yield self.miss.replace("NUMBER", str(number)).encode() if number % MISS_EVERY == 0 else next(hits)


class Steady:
    """Sends requests when they are due, on connections that are idle."""

    def __init__(self, order: Order) -> None:
        self._order, self._requests = order, order.requests()
        self._poll = select.epoll()
        self._sockets = [socket.create_connection(("127.0.0.1", order.port)) for _ in range(CONNECTIONS)]
        self._by_number = {each.fileno(): each for each in self._sockets}
        self._idle = collections.deque(self._sockets)
        self._started: dict[int, float] = {}
        self._received: dict[int, bytes] = {}
        self.found: list[tuple[float, float]] = []

    def run(self) -> None:
        """Send until standard input has something to read, or ends."""
        self._poll.register(sys.stdin.fileno(), select.EPOLLIN)
        for number in self._by_number:
            self._poll.register(number, select.EPOLLIN)
        began, sent, late = time.perf_counter(), 0, False
        while True:
            now = time.perf_counter()
            while (due := began + sent / self._order.rate) <= now and self._idle:
                self._send(due if late else time.perf_counter())
                sent += 1
            late = due <= now
            for number, _ in self._poll.poll(None if late else max(0.0, due - now)):
                if number not in self._by_number:
                    return
                self._read(number)

    def _send(self, started: float) -> None:
        connection = self._idle.popleft()
        connection.sendall(next(self._requests))
        self._started[connection.fileno()], self._received[connection.fileno()] = started, b""

    def _read(self, number: int) -> None:
        piece = self._by_number[number].recv(1 << 16)
        self._received[number] += piece
        head, blank, body = self._received[number].partition(b"\r\n\r\n")
        if not piece or not b"HTTP/1.1 200 ".startswith(head[:13]):
            raise RuntimeError(f"unexpected response: {self._received[number]!r}")
        if blank and len(body) >= self._order.body:
            started = self._started[number]
            self.found.append((started, (time.perf_counter() - started) * 1000))
            self._idle.append(self._by_number[number])


if __name__ == "__main__":
    steady = Steady(convert(json.loads(sys.argv[1]), Order))
    steady.run()
    print(json.dumps(steady.found))
