"""The benchmarks run too seldom to notice by themselves that a name they import is gone."""

import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[3] / "bench"


def test_every_import_of_the_benchmarks_resolves() -> None:
    program = "import " + ", ".join(sorted(path.stem for path in BENCH.glob("*.py")))
    ran = subprocess.run([sys.executable, "-c", program], cwd=BENCH, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_other_changes_are_bounded_at_their_95th_percentile() -> None:
    program = """
import report
results = {"regexes": {"median ms of other changes": 31, "95th percentile ms of other changes": 31}}
print([(verdict.what.rpartition(", ")[2], verdict.holds) for verdict in report.verdicts(results)])
"""
    ran = subprocess.run([sys.executable, "-c", program], cwd=BENCH, capture_output=True, text=True, check=False)
    assert ran.stdout == "[('median ms', True), ('95th percentile ms', False)]\n", ran.stderr


def test_page_says_when_each_part_was_measured() -> None:
    program = """
import report
results = {"machine": "m", "measured": {"regexes": "2026-11-19", "cost": "2026-11-16", "changes": "2026-11-16"}}
print(next(line for line in report.page(results, []).splitlines() if line.startswith("Machine")))
"""
    ran = subprocess.run([sys.executable, "-c", program], cwd=BENCH, capture_output=True, text=True, check=False)
    assert ran.stdout == "Machine: m. Measured: changes, cost on 2026-11-16; regexes on 2026-11-19.\n", ran.stderr
