"""Results as a table, as docs/reference/benchmarks.md and as pictures."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REFERENCE = Path(__file__).parent.parent / "docs" / "reference"


@dataclass(frozen=True)
class Verdict:
    """One figure beside what we promise."""

    what: str
    value: float
    limit: float | None

    @property
    def holds(self) -> bool:
        return self.limit is None or self.value <= self.limit

    @property
    def row(self) -> tuple[str, str, str, str]:
        limit = "" if self.limit is None else f"≤ {self.limit:g}"
        return (self.what, f"{self.value:g}", limit, "" if self.limit is None else "holds" if self.holds else "MISSED")


OPERATOR = [
    ("median ms among 50", "operator: a route's change to the written shard among 50 routes, median ms", None),
    ("median ms among 5,000", "the same among 5,000 routes", 15),
    ("5,000 / 50", "the same, 5,000 / 50", 1.5),
    ("median ms until readable among 5,000", "until the index names it too, among 5,000 routes, median ms", None),
    ("CPU ms per change among 50", "operator: CPU per change among 50 routes, ms", None),
    ("CPU ms per change among 5,000", "the same among 5,000 routes", 5),
    ("CPU, 5,000 / 50", "the same, 5,000 / 50", 1.5),
    ("memory at 5,000 routes, MB", "operator: memory at 5,000 routes, MB", 200),
    (
        "burst: s from the last to the right count",
        "1,000 routes at once: s until attachedRoutes is right",
        1,
    ),
    ("burst: Gateway status writes", "1,000 routes at once: writes of the Gateway's status", 100),
    ("burst: CPU s", "1,000 routes at once: CPU of the operator, s", None),
    ("median ms among 20,000", "operator: a route's change among 20,000 routes, median ms", None),
    ("memory at 20,000 routes, MB", "operator: memory at 20,000 routes, MB", None),
]

PROMISES: Sequence[tuple[tuple[str, ...], str, float | None]] = [
    *(
        promise
        for mode in ("hit", "pass")
        for promise in (
            (("cost", mode, "noise (plain again / plain)"), f"{mode}: plain / plain, the noise", None),
            (("cost", mode, "ghost with 10 routes / plain"), f"{mode}: CPU per request, ghost / plain varnishd", 1.15),
            (("cost", mode, "10,000 hosts / 10 hosts"), f"{mode}: 10,000 hosts / 10 hosts", 1.05),
            (("cost", mode, "10,000 paths / 10 paths"), f"{mode}: 10,000 paths of one host / 10 paths", 1.05),
        )
    ),
    (("changes", "median ms among 10"), "rename to changed answer among 10 routes, median ms", None),
    (("changes", "median ms among 5,000"), "rename to changed answer among 5,000 routes, median ms", 60),
    (("changes", "5,000 / 10"), "the same, 5,000 / 10", 2),
    (("changes", "start on 5,000 files, s"), "start on 5,000 files until the last route serves, s", 10),
    (("recovery", "longest s of a worker's death"), "a worker's death until the next answer, longest of ten, s", 2),
    (("recovery", "longest s of varnishd's death"), "the same of varnishd itself, which compiles its VCL anew", None),
    (("recovery", "longest s of another port"), "a listener's other port until the first answer there, longest, s", 2),
    (("translation", "translating 5,000 routes, CPU s"), "translating 5,000 routes from nothing, CPU s", 1),
    (("memory", "memory of ghost for 5,000 routes, MB"), "memory of ghost for 5,000 routes and endpoints, MB", 40),
    (
        ("memory", "counters of varnishd for 5,000 endpoints, MB"),
        "varnishd's own counters for 5,000 endpoints beside it, MB",
        None,
    ),
    *((("operator", key), what, limit) for key, what, limit in OPERATOR),
    (
        ("endpoints", "median ms among 5,000 Services"),
        "an endpoint's watch event to traffic among 5,000 Services, median ms",
        30,
    ),
]


def verdicts(results: dict[str, Any]) -> list[Verdict]:
    """Return every promised figure that was measured."""
    found = []
    for path, what, limit in PROMISES:
        value: Any = results
        for step in path:
            value = value.get(step, {})
        if isinstance(value, int | float):
            found.append(Verdict(what, value, limit))
    return found


def table(found: Sequence[Verdict]) -> str:
    """Return the figures for a terminal."""
    rows = [("what", "value", "promised", ""), *(verdict.row for verdict in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def write_page(results: dict[str, Any], found: Sequence[Verdict]) -> None:
    """Write docs/reference/benchmarks.md and its pictures."""
    (REFERENCE / "benchmarks").mkdir(parents=True, exist_ok=True)
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench`. Every cost is a ratio taken in one run beside plain varnishd with a static VCL,",
        "one backend and no routing; CPU time of varnishd's child, runs interleaved. The baseline against itself is",
        "the noise of the machine. Figures about Kubernetes come from a real API server and include its time to store",
        "objects and to notify watchers.",
        "",
        f"Machine: {results['machine']}.",
        "",
        "| What | Value | Promised | |",
        "|---|---|---|---|",
        *("| " + " | ".join(verdict.row) + " |" for verdict in found),
        "",
    ]
    if "cost" in results:
        _draw_cost(results["cost"])
        lines += ["![CPU per request](benchmarks/cost.svg)", ""]
    if "changes" in results:
        _draw_changes(results["changes"])
        lines += ["![From rename to changed answer](benchmarks/changes.svg)", ""]
    if "operator" in results:
        _draw_operator(results["operator"])
        lines += ["![From a route's change to the written shard](benchmarks/operator.svg)", ""]
    (REFERENCE / "benchmarks.md").write_text("\n".join(lines))


def _draw_cost(cost: dict[str, Any]) -> None:
    plot = _plot()
    figure, axes = plot.subplots(1, 2, figsize=(10, 3), sharey=True)
    for axis, (mode, figures) in zip(axes, cost.items(), strict=True):
        micros = figures["microseconds per request"]
        base = micros["plain"]
        axis.barh(list(micros), [value / base for value in micros.values()], color="#3b6ea5")
        axis.axvline(1.0, color="#999999", linewidth=1)
        axis.set_title(f"{mode}: CPU per request, plain = 1")
        axis.invert_yaxis()
    _save(figure, "cost.svg")


def _draw_changes(changes: dict[str, Any]) -> None:
    series = ("milliseconds among 10", "milliseconds among 5,000")
    label = "milliseconds from a file's rename to the first changed answer"
    _draw_shares({key: changes[key] for key in series}, label, "changes.svg")


def _draw_operator(operator: dict[str, Any]) -> None:
    series = ("milliseconds among 50", "milliseconds among 5,000")
    label = "milliseconds from a route's change to the written shard"
    _draw_shares({key: operator[key] for key in series}, label, "operator.svg")


def _draw_shares(series: dict[str, list[float]], label: str, name: str) -> None:
    """Draw how many of the changes had happened after how many milliseconds."""
    plot = _plot()
    figure, axis = plot.subplots(figsize=(10, 3))
    for key, values in series.items():
        ordered = sorted(values)
        axis.step(ordered, [(place + 1) / len(ordered) for place in range(len(ordered))], label=key.split(" ", 1)[1])
    axis.set_xlabel(label)
    axis.set_ylabel("share of changes")
    axis.set_xlim(left=0)
    axis.legend()
    _save(figure, name)


def _plot() -> Any:
    import matplotlib as mpl  # noqa: PLC0415 slow to import, and only needed here

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "varnish-gateway"  # the same figures make the same file
    import matplotlib.pyplot as plt  # noqa: PLC0415 after the backend is chosen

    return plt


def _save(figure: Any, name: str) -> None:
    figure.tight_layout()
    figure.savefig(REFERENCE / "benchmarks" / name, metadata={"Date": None})
