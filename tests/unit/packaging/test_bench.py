"""The benchmarks run too seldom to notice by themselves that a name they import is gone, or that they count wrongly."""

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[3] / "bench"


def printed(program: str) -> str:
    """Run a program that may import the benchmarks; return what it prints."""
    ran = subprocess.run([sys.executable, "-c", program], cwd=BENCH, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_every_import_of_the_benchmarks_resolves() -> None:
    printed("import " + ", ".join(sorted(path.stem for path in BENCH.glob("*.py"))))


def test_other_changes_are_bounded_at_their_95th_percentile() -> None:
    program = """
import report
results = {"regexes": {"median ms of other changes": 31, "95th percentile ms of other changes": 31}}
print([(verdict.what.rpartition(", ")[2], verdict.holds) for verdict in report.verdicts(results)])
"""
    assert printed(program) == "[('median ms', True), ('95th percentile ms', False)]\n"


def test_page_says_when_each_part_was_measured() -> None:
    program = """
import report
results = {"machine": "m", "measured": {"regexes": "2026-11-19", "cost": "2026-11-16", "changes": "2026-11-16"}}
print(next(line for line in report.page(results, []).splitlines() if line.startswith("Machine")))
"""
    assert printed(program) == "Machine: m. Measured: changes, cost on 2026-11-16; regexes on 2026-11-19.\n"


def test_promises_of_the_cache_are_missed_just_beyond_their_limits() -> None:
    program = """
import report
limits = {
    "cache": {"policy / static VCL": 1.15},
    "policies": {"5,000 policies / one policy": 1.05},
    "invalidations": {"beyond the noise": 1.05},
    "purges": {
        "soft purge on the reload socket, ms": 100,
        "hard purge on the reload socket, ms": 250,
        "p99, beside / before soft purges": 2,
        "p99, beside / before hard purges": 2,
        "index: bytes of an object": 200,
    },
}
beyond = {part: {what: limit + 0.01 for what, limit in of.items()} for part, of in limits.items()}
for results in (limits, beyond):
    print([verdict.holds for verdict in report.verdicts(results)])
"""
    assert printed(program) == f"{[True] * 8}\n{[False] * 8}\n"


def test_noise_is_no_slowdown_in_whichever_direction_it_goes() -> None:
    program = """
from cache_invalidations import beyond
print(beyond(1.03, 1.07), beyond(0.97, 1.07), beyond(1.0, 1.07))
"""
    assert printed(program) == "1.04 1.04 1.07\n"


def test_traffic_is_compared_with_that_before_each_purge() -> None:
    program = """
import json
from cache_purge import _compared
times = [(n / 100, 1 + 9 * (200 <= n < 250) + 99 * (n < 150 or n >= 250)) for n in range(400)]
print(json.dumps(_compared("soft", times, [(2.0, 2.5)])))
"""
    expected = {
        "p99 ms before soft purges": 1,
        "p99 ms beside soft purges": 10,
        "p99, beside / before soft purges": 10.0,
    }
    assert json.loads(printed(program)) == expected


def test_filling_sends_each_request_once_on_all_connections() -> None:
    program = """
import re, socketserver, threading
from filling import CONNECTIONS, DEPTH, fill

received = []

class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        while piece := self.request.recv(1 << 16):
            found = re.findall(rb"GET (\\d+) ", piece)
            received.append(found)
            self.request.sendall(b"HTTP/1.1 200 OK\\r\\n\\r\\nblue" * len(found))

with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever).start()
    count = 2 * CONNECTIONS * DEPTH + 3
    fill(server.server_address[1], (b"GET %d " % n for n in range(count)), b"blue")
    server.shutdown()
numbers = sorted(int(number) for found in received for number in found)
print(numbers == list(range(count)), len(received) >= 2 * CONNECTIONS)
"""
    assert printed(program) == "True True\n"


def test_filling_fails_with_a_response_that_breaks_off() -> None:
    program = """
import socketserver, threading
from filling import fill

class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.recv(1 << 16)
        self.request.sendall(b"HTTP/1.1 503 Service Unavailable\\r\\n\\r\\n")

with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
    threading.Thread(target=server.serve_forever).start()
    try:
        fill(server.server_address[1], [b"GET /"], b"blue")
    except RuntimeError as error:
        print("503" in str(error))
    server.shutdown()
"""
    assert printed(program) == "True\n"
