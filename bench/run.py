"""Run the measurements, check the results against the promised limits, write results and charts.

Usage: run.py [--quick] [NAME…]
with NAME among cost, changes, recovery, translation, memory, operator, endpoints, hostile, regexes, cache, policies,
invalidations, purges, policy-changes
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import cache_changes
import cache_cost
import cache_invalidations
import cache_policies
import cache_purge
import changes
import endpoint_cost
import hostile
import operator_cost
import recovery
import regexes
import report
import request_cost
import translation

RESULTS = Path(__file__).parent / "results" / "latest.json"


def main() -> int:
    parser = argparse.ArgumentParser(
        description="benchmark Varnish Gateway; request cost is compared with plain varnishd"
    )
    parser.add_argument("--quick", action="store_true", help="short runs that only check that the benchmarks work")
    parser.add_argument("names", nargs="*", metavar="NAME", help="what to measure (default: everything)")
    options = parser.parse_args()
    rounds, seconds, edits = (2, 1, 10) if options.quick else (25, 1, 100)
    measurements: dict[str, Callable[[], dict[str, object]]] = {
        "cost": lambda: request_cost.measure(rounds, seconds),
        "changes": lambda: changes.measure(edits),
        "recovery": lambda: recovery.measure(edits // 10),
        "translation": translation.measure_translation,
        "memory": translation.measure_memory,
        "operator": lambda: operator_cost.measure(edits, huge=7_000 if options.quick else operator_cost.HUGE),
        "endpoints": lambda: endpoint_cost.measure(edits),
        "hostile": lambda: hostile.measure(*((1, 3) if options.quick else (3, 6))),
        "regexes": lambda: regexes.measure(edits, requests=2 * edits),
        "cache": lambda: cache_cost.measure(rounds, seconds),
        "policies": lambda: cache_policies.measure(rounds, seconds),
        "invalidations": lambda: cache_invalidations.measure(rounds, seconds),
        "purges": lambda: cache_purge.measure(*((20_000, 200, 1) if options.quick else ())),
        "policy-changes": lambda: cache_changes.measure(edits),
    }
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    results["machine"] = f"{platform.machine()}, {os.cpu_count()} cores"
    for name in options.names or measurements:
        print(f"measuring {name} …", flush=True)
        results[name] = measurements[name]()
        results.setdefault("measured", {})[name] = datetime.now(UTC).date().isoformat()
        if not options.quick:  # a later failure must not lose what took minutes
            RESULTS.parent.mkdir(exist_ok=True)
            RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    verdicts = report.verdicts(results)
    print(report.table(verdicts))
    if not options.quick:
        report.write_page(results, verdicts)
    return 0 if all(verdict.holds for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
