"""CPU time per request of several servers under the same load, measured in turns.

In:   running servers, and the requests that each gets in a cycle.
Out:  the CPU time of each server's worker for a request, and ratios of these.

Each turn visits every server once, in another order: what slows the machine down for a while slows all of them. A
ratio is the median of the turns' ratios. The ratio of two servers that are equal is the noise.
"""

import http.client
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import lab


@dataclass(frozen=True)
class Visited:
    """A server, and raw requests for it."""

    server: lab.Server
    requests: Sequence[str]


class Costs:
    """What a request cost each server, in each turn."""

    def __init__(self, servers: Mapping[str, Visited], seconds: int, directory: Path) -> None:
        self._servers, self._seconds, self._directory = servers, seconds, directory
        self._seconds_per_request: dict[str, list[float]] = {name: [] for name in servers}

    def visit(self, turn: int) -> None:
        """Send load to every server, one after another."""
        names = list(self._servers)
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            self._seconds_per_request[name].append(self._cost(self._servers[name]))

    def warm_up(self) -> None:
        """Visit every server without counting it, so that caches are filled."""
        for visited in self._servers.values():
            self._cost(visited)

    def _cost(self, visited: Visited) -> float:
        before = visited.server.cpu_seconds()
        answered = lab.load(visited.server.port, visited.requests, self._seconds, self._directory)
        return (visited.server.cpu_seconds() - before) / answered

    def ratio(self, of: str, to: str) -> float:
        """Return how many times as much a request costs one server as the other."""
        pairs = zip(self._seconds_per_request[of], self._seconds_per_request[to], strict=True)
        return round(statistics.median(a / b for a, b in pairs), 3)

    def microseconds(self) -> dict[str, float]:
        """Return the median for each server."""
        return {name: round(statistics.median(all_) * 1e6, 1) for name, all_ in self._seconds_per_request.items()}


def check_cached(name: str, server: lab.Server, host: str, target: str, headers: Mapping[str, str]) -> None:
    """Raise an error unless the second of two responses is the first one: the origin numbers those that it makes."""
    numbers = []
    for _ in range(2):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        connection.request("GET", target, headers={"Host": host, **headers})
        answer = connection.getresponse()
        answer.read()
        connection.close()
        numbers.append((answer.status, answer.getheader(lab.SERIAL)))
    first, second = numbers
    if first != second or first[0] != 200 or first[1] is None:
        raise RuntimeError(f"{name} doesn't cache: two responses were {first} and {second}")
