"""Overload for tests: many clients at once on a varnishd with few threads.

In:   a slow and a fast origin, and bytes that every client of a crowd sends.
Out:  a running varnishd with one route for each origin; what the clients received.
"""

import contextlib
import json
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from typing import Self

from support.http.origins import Origin
from support.http.scripted_origin import ScriptedOrigin
from support.varnish.ghost import Config, GhostHarness, backend, prefix, route, to
from support.waiting import until
from varnish_gateway.ir import wire

THREADS = {
    "thread_pools": "1",
    "thread_pool_min": "100",
    "thread_pool_max": "100",
    "thread_pool_watchdog": "3",
    "thread_queue_limit": "200",
}
"""90 for requests, of which 68 are for one namespace, and 34 for one route. Without shares, fetches that wait for a
thread would make varnishd's child panic after the time of the watchdog. No connection of a crowd is dropped."""
CROWD = 120
SOON = 3.0

SLOW_REQUEST = b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n"


AnyOrigin = Origin | ScriptedOrigin


class Crowd:
    """Clients that have sent the same bytes, each on a connection of its own, and read only when asked to."""

    def __init__(self, port: int, sent: bytes, *, count: int = CROWD) -> None:
        self._stack = contextlib.ExitStack()
        self.connections = [self._connect(port) for _ in range(count)]
        for connection in self.connections:
            connection.sendall(sent)
        self.received = [b""] * count

    def _connect(self, port: int) -> socket.socket:
        connection = self._stack.enter_context(socket.socket())
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(10)
        connection.connect(("127.0.0.1", port))
        connection.setblocking(False)
        return connection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def answers(self, status: int) -> list[bytes]:
        """Read what is there; return the answers with this status."""
        for number, connection in enumerate(self.connections):
            with contextlib.suppress(BlockingIOError, ConnectionResetError):
                while piece := connection.recv(65536):
                    self.received[number] += piece
        return [one for one in self.received if one.startswith(b"HTTP/1.1 %d " % status)]

    def one(self) -> bytes:
        """Wait for the head of a 101, or for a whole 503."""
        whole = until(
            lambda: self.answers(101) or [one for one in self.answers(503) if one.endswith((b"}", b"</html>\n"))],
            "an answer",
        )
        return whole[0]

    def answered(self, status: int, at_least: int) -> list[bytes]:
        return until(lambda: found if len(found := self.answers(status)) >= at_least else None, f"{status}s")


def slow_and_fast(slow: ScriptedOrigin, fast: AnyOrigin, shares: wire.WorkerShares | None = None) -> Config:
    routes = [
        route("slow", to(backend("slow"), matches=[prefix("/slow")])),
        route("fast", to(backend("fast"), matches=[prefix("/fast")])),
    ]
    pools = {"slow": [slow.endpoint], "fast": [fast.endpoint]}
    return Config(routes, pools, requests=wire.RequestRules(shares=shares) if shares else None)


@contextlib.contextmanager
def serving(
    config: Config, user_vcl: str = "", *, environment: Mapping[str, str] | None = None, **parameters: str
) -> Iterator[GhostHarness]:
    settings = {**THREADS, **parameters}
    with GhostHarness(config, user_vcl=user_vcl, parameters=settings, environment=environment) as ghost:
        child = ghost.child
        until(lambda: threads_of(ghost) == int(settings["thread_pool_max"]), "varnishd has created its threads")
        yield ghost
        assert ghost.child == child


def threads_of(ghost: GhostHarness) -> int:
    """Return how many threads varnishd's pool has. With few of them, varnishd drops connections of a crowd."""
    call = ["varnishstat", "-1", "-n", str(ghost.directory / "varnish"), "-f", "MAIN.threads"]
    line = subprocess.run(call, capture_output=True, text=True, check=True).stdout
    return int(line.split()[1]) if line else 0


def assert_undisturbed(ghost: GhostHarness, path: str = "/fast", *, requests: int = 200) -> None:
    """Other routes answer, each request within the time, and go on for longer than the watchdog waits."""
    end = time.monotonic() + 4
    count = 0
    while count < requests or time.monotonic() < end:
        began = time.monotonic()
        assert ghost.get(path).status == 200
        assert time.monotonic() - began < SOON
        count += 1


def is_from_vcl_synth(received: bytes) -> bool:
    """Whether the response is that of a request whose rejection found no thread for a fetch."""
    return b"\r\nContent-Type: text/html" in received


def reason(received: bytes) -> str:
    if is_from_vcl_synth(received):
        return received.partition(b"\r\n")[0].decode().split(" ", 2)[2]
    return str(json.loads(received.partition(b"\r\n\r\n")[2])["reason"])
