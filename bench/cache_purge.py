"""Measure how long the purge of a tag takes in a large cache, what traffic notices, and what the index takes.

``vgw run`` stores a million small objects. Each has a URI of 60 bytes, and one tag that it shares with 9,999 others. A
purge of a tag is a POST on the reload socket, where varnishd's worker carries it out, or a POST /invalidate on the
health address. Meanwhile clients send hits and a few misses at a steady rate. Their times in half a second from the
beginning of a purge are compared with those of the half second before it. The gateway has one core; clients and
origin have the other, and help it while the cache is filled.
"""

import contextlib
import http.client
import json
import os
import re
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import lab
import steady
from filling import fill
from fleet import Fleet
from lab import free_port

from support.kube.documents import cache_policy, gateway_class, parameters
from support.processes import cpu_seconds, descendants, kilobytes, program

OBJECTS, TAGGED, ROUNDS = 1_000_000, 10_000, 5
RATE = 1000
HOT = 1_000
"""Hits are on so many objects, which no purge names."""
WINDOW_SECONDS, EVERY_SECONDS = 0.5, 1.5
BODY = "blue"  # Fleet knows its origin by it
TAG = {"Surrogate-Key": r'"product-" + regsub(req.url, "^/products/([0-9]+)/.*$", "\1")'}
TOKEN = "token-of-the-benchmark"
RELOAD, HEALTH = "on the reload socket", "by POST /invalidate"
MODES = ("soft", "hard")

Pair = tuple[float, float]
Purge = Callable[[str, str], int]
"""Carries out a purge of a tag in a mode; returns how many objects there were."""


@dataclass
class Purged:
    """What the purges of one kind took, and what requests took beside them."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    windows: list[Pair] = field(default_factory=list)

    def add(self, began: float, ended: float, cpu: float) -> None:
        self.seconds.append(ended - began)
        self.cpu_seconds.append(cpu)
        self.windows.append((began, began + WINDOW_SECONDS))


def measure(objects: int = OBJECTS, tagged: int = TAGGED, rounds: int = ROUNDS) -> dict[str, object]:
    """Return milliseconds of purges and of the traffic beside them, and bytes of the index for an object."""
    affinity = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {lab.LOAD_CORE})
    try:
        with contextlib.ExitStack() as stack:
            directory = stack.enter_context(lab.open_directory())
            port = stack.enter_context(lab.origin(directory / "origin", body=BODY, headers=lab.CACHEABLE | TAG))
            cache = stack.enter_context(_running(directory, port))
            # Each hard purge takes some away, and there are two ways to purge.
            found = cache.fill(objects + 2 * rounds * tagged, tagged)
            return found | _measure_purges(cache, tagged, rounds)
    finally:
        os.sched_setaffinity(0, affinity)


# -- the cache -------------------------------------------------------------------------


def target(tag: int, name: str) -> str:
    """Return path and query, of 60 bytes."""
    return f"{f'/products/{tag}/item-{name}/':-<53}?v=0001"


def request(of: str) -> str:
    return f"GET {of} HTTP/1.1\r\nHost: h0.example.com\r\n\r\n"


@dataclass
class Cache:
    """A gateway with a cache to be filled."""

    fleet: Fleet
    health: int
    worker: int
    reload_port: int
    tags: int = 0

    def fill(self, objects: int, tagged: int) -> dict[str, object]:
        """Store objects, so many with each tag; return what they take."""
        self.tags = objects // tagged
        # No two objects of a tag follow each other.
        names = ((number % self.tags, f"{number * 2_654_435_761 % (1 << 32):010}") for number in range(objects))
        before, began = kilobytes(self.worker, "RssAnon"), time.monotonic()
        self.pin({lab.MEASURED_CORE, lab.LOAD_CORE})
        fill(self.fleet.port, (request(target(*name)).encode() for name in names), BODY.encode())
        self.pin({lab.MEASURED_CORE})
        index = {what: self._metric(f"vgw_cache_index_{what}") for what in ("objects", "bytes")}
        if index["objects"] < objects:
            raise RuntimeError(f"the index has {index['objects']} of {objects} objects")
        return {
            "objects": index["objects"],
            "index: bytes of an object": round(index["bytes"] / index["objects"], 1),
            "memory: bytes of an object": round((kilobytes(self.worker, "RssAnon") - before) * 1024 / objects),
            "filling, s": round(time.monotonic() - began, 1),
        }

    def pin(self, cores: set[int]) -> None:
        """Let the gateway use these cores."""
        assert self.fleet.process is not None
        for pid in (self.fleet.process.pid, *descendants(self.fleet.process.pid)):
            for task in Path(f"/proc/{pid}/task").iterdir():
                with contextlib.suppress(ProcessLookupError):  # it has ended
                    os.sched_setaffinity(int(task.name), cores)

    def _metric(self, name: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.health, timeout=60)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        found = re.search(rf"^{name}(?:\{{.*\}})? (\d+)", text, re.MULTILINE)
        if found is None:
            raise RuntimeError(f"/metrics has no {name}")
        return int(found[1])

    @property
    def ways(self) -> dict[str, Purge]:
        """How to purge."""
        return {
            RELOAD: lambda mode, tag: _purge(self.reload_port, "/.varnish-ghost/invalidate", mode, tag),
            HEALTH: lambda mode, tag: _purge(self.health, "/invalidate", mode, tag),
        }


@contextlib.contextmanager
def _running(directory: Path, origin: int) -> Iterator[Cache]:
    """Run a gateway that caches, with room for all objects."""
    fleet = Fleet(directory / "fleet", 1, {"blue": origin})
    documents = [
        gateway_class("varnish", "bench"),
        parameters("bench", storage={"size": "4Gi"}),
        cache_policy("default", "HTTPRoute", "route-0", defaultTTL="24h", grace="1h", tagHeaders=["Surrogate-Key"]),
    ]
    for number, document in enumerate(documents):
        (fleet.directory / f"cache-{number}.yaml").write_text(json.dumps(document))
    tokens, health = directory / "tokens.json", free_port()
    tokens.write_text(json.dumps({"tokens": [{"name": "bench", "token": TOKEN}]}))
    with fleet.running("--health-addr", f"127.0.0.1:{health}", "--invalidation-tokens", str(tokens)):
        assert fleet.process is not None
        worker = next(pid for pid in descendants(fleet.process.pid) if program(pid) == "cache-main")
        yield Cache(fleet, health, worker, _reload_port(worker, fleet.port))


def _reload_port(worker: int, clients: int) -> int:
    """Return the other TCP port that varnishd's worker listens on."""
    sockets = set()
    for descriptor in Path(f"/proc/{worker}/fd").iterdir():
        with contextlib.suppress(OSError):  # it was closed meanwhile
            sockets.add(str(descriptor.readlink()))
    rows = [line.split() for line in Path(f"/proc/{worker}/net/tcp").read_text().splitlines()[1:]]
    listening = [row for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets]
    (port,) = {int(row[1].rpartition(":")[2], 16) for row in listening} - {clients}
    return port


def _purge(port: int, path: str, mode: str, tag: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    body = json.dumps({"mode": mode, "targets": [{"tags": [tag]}]})
    connection.request("POST", path, body, {"Host": "localhost", "Authorization": f"Bearer {TOKEN}"})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    if answer.status != 200:
        raise RuntimeError(f"the purge was answered {answer.status} {content!r}")
    return sum(json.loads(content)["objects"])


# -- purges beside traffic -------------------------------------------------------------


def _measure_purges(cache: Cache, tagged: int, rounds: int) -> dict[str, object]:
    purged = {(way, mode): Purged() for way in cache.ways for mode in MODES}
    tags = iter(range(cache.tags - 1))  # the last one is that of hits
    with _traffic(cache) as load:
        began = time.perf_counter() + EVERY_SECONDS
        for number, (way, mode) in enumerate([*purged] * rounds):
            time.sleep(max(0.0, began + number * EVERY_SECONDS - time.perf_counter()))
            start, cpu = time.perf_counter(), cpu_seconds(cache.worker)
            count = cache.ways[way](mode, f"product-{next(tags)}")
            purged[way, mode].add(start, time.perf_counter(), cpu_seconds(cache.worker) - cpu)
            if count != tagged:
                raise RuntimeError(f"a purge hit {count} objects instead of {tagged}")
        time.sleep(EVERY_SECONDS)
    times = load.times()
    found: dict[str, object] = {}
    for (way, mode), one in purged.items():
        found[f"{mode} purge {way}, ms"] = round(statistics.median(one.seconds) * 1000, 1)
        found[f"{mode} purge {way}, CPU ms"] = round(statistics.median(one.cpu_seconds) * 1000, 1)
        found[f"each {mode} purge {way}, ms"] = [round(seconds * 1000, 1) for seconds in one.seconds]
    for mode in MODES:
        windows = [window for way in cache.ways for window in purged[way, mode].windows]
        found |= _compared(mode, times, windows)
    return found


def _compared(
    mode: str, times: Sequence[tuple[float, float]], windows: Sequence[tuple[float, float]]
) -> dict[str, object]:
    before = p99([took for start, took in times if _is_within(start + WINDOW_SECONDS, windows)])
    beside = p99([took for start, took in times if _is_within(start, windows)])
    return {
        f"p99 ms before {mode} purges": round(before, 2),
        f"p99 ms beside {mode} purges": round(beside, 2),
        f"p99, beside / before {mode} purges": round(beside / before, 2),
    }


def _is_within(moment: float, windows: Sequence[Pair]) -> bool:
    return any(begin <= moment < end for begin, end in windows)


def p99(milliseconds: Sequence[float]) -> float:
    """Return the time within which 99 of 100 requests were served."""
    return statistics.quantiles(milliseconds, n=100, method="inclusive")[-1]


class _Traffic:
    """Steady traffic in a process of its own."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._output = b""

    def stop(self) -> None:
        self._output, _ = self._process.communicate()

    def times(self) -> list[Pair]:
        """Return when each request was sent, and the milliseconds that it took."""
        if self._process.returncode:
            raise RuntimeError(f"the traffic failed with status {self._process.returncode}")
        return [(start, took) for start, took in json.loads(self._output)]


@contextlib.contextmanager
def _traffic(cache: Cache) -> Iterator[_Traffic]:
    hot = [request(target(cache.tags - 1, f"hot-{number}")) for number in range(HOT)]
    fill(cache.fleet.port, [each.encode() for each in hot], BODY.encode())
    order = steady.Order(cache.fleet.port, RATE, hot, request(target(cache.tags, "miss-NUMBER")), len(BODY))
    process = subprocess.Popen(order.words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    traffic = _Traffic(process)
    try:
        yield traffic
    finally:
        traffic.stop()
