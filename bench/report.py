"""Results as a table, as docs/reference/benchmarks.md and as charts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cache_cost
from hostile import EVERYTHING, THREATS

REFERENCE = Path(__file__).parent.parent / "docs" / "reference"


@dataclass(frozen=True)
class Verdict:
    """A measured value and the limit that the project promises, if any."""

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
    ("median ms among 50", "operator: from route change to written shard, 50 routes, median ms", None),
    ("median ms among 5,000", "operator: from route change to written shard, 5,000 routes, median ms", 15),
    ("5,000 / 50", "operator: from route change to written shard, 5,000 / 50 routes", 1.5),
    ("median ms until readable among 5,000", "operator: from route change to index, 5,000 routes, median ms", None),
    ("CPU ms per change among 50", "operator: CPU per change, 50 routes, ms", None),
    ("CPU ms per change among 5,000", "operator: CPU per change, 5,000 routes, ms", 5),
    ("CPU, 5,000 / 50", "operator: CPU per change, 5,000 / 50 routes", 1.5),
    ("memory at 5,000 routes, MB", "operator: memory, 5,000 routes, MB", 200),
    (
        "burst: s from the last to the right count",
        "1,000 routes at once: from last creation to correct attachedRoutes, s",
        1,
    ),
    ("burst: Gateway status writes", "1,000 routes at once: writes of the Gateway's status", 100),
    ("burst: CPU s", "1,000 routes at once: CPU of the operator, s", None),
    ("median ms among 20,000", "operator: from route change to written shard, 20,000 routes, median ms", None),
    ("memory at 20,000 routes, MB", "operator: memory, 20,000 routes, MB", None),
]

CACHE = [
    (("cache", "noise (static VCL again / static VCL)"), "hit under a policy: noise, static VCL / static VCL", None),
    (("cache", "policy / static VCL"), "hit under a policy with a key of its own: CPU, policy / static VCL", 1.15),
    (("cache", "policy with Cache-Status / static VCL"), "the same with Cache-Status, policy / static VCL", None),
    (
        ("cache", "policy / static VCL with the built-in key"),
        "the same without Cache-Status, policy / static VCL that leaves the key to varnishd",
        None,
    ),
    *(
        (("cache", "microseconds per hit", server), f"hit on the same objects, CPU of the worker, µs: {server}", None)
        for server in (*cache_cost.OWN, *cache_cost.PEERS)
    ),
    (("policies", "noise (one policy again / one policy)"), "hit: noise, one policy / one policy", None),
    (("policies", "5,000 policies / one policy"), "hit: CPU per request, 5,000 policies / one for 5,000 routes", 1.05),
    (("invalidations", "noise (untouched again / untouched)"), "hit: noise, untouched cache / untouched cache", None),
    (
        ("invalidations", "after 1,000 invalidations / untouched"),
        "hit: CPU per request, after 1,000 invalidations / untouched cache",
        None,
    ),
    (("invalidations", "beyond the noise"), "the same, without the noise", 1.05),
    *(
        (
            ("purges", f"{mode} purge {way}, ms"),
            f"{mode} purge of 10,000 among 1,000,000 objects {way}, median ms",
            limit,
        )
        for way, limits in (("on the reload socket", (100, 250)), ("by POST /invalidate", (None, None)))
        for mode, limit in zip(("soft", "hard"), limits, strict=True)
    ),
    *(
        promise
        for mode in ("soft", "hard")
        for promise in (
            (
                ("purges", f"{mode} purge on the reload socket, CPU ms"),
                f"CPU of the worker during a {mode} purge, traffic included, median ms",
                None,
            ),
            (("purges", f"p99 ms before {mode} purges"), f"p99 of traffic before {mode} purges, ms", None),
            (
                ("purges", f"p99, beside / before {mode} purges"),
                f"p99 of traffic in half a second from a {mode} purge / before it",
                2,
            ),
        )
    ),
    (("purges", "index: bytes of an object"), "index: bytes of an object with its URI and one tag", 200),
    (("purges", "memory: bytes of an object"), "memory of varnishd's worker for an object of 4 bytes", None),
    (
        ("policy-changes", "median ms of a policy"),
        "from rename of a policy's file to changed response, median ms",
        None,
    ),
    (("policy-changes", "policy / route"), "from rename of a file to changed response, policy / route", 1.25),
]

PROMISES: Sequence[tuple[tuple[str, ...], str, float | None]] = [
    *(
        promise
        for mode in ("hit", "pass")
        for promise in (
            (("cost", mode, "noise (plain again / plain)"), f"{mode}: noise, plain varnishd / plain varnishd", None),
            (("cost", mode, "ghost with 10 routes / plain"), f"{mode}: CPU per request, ghost / plain varnishd", 1.15),
            (("cost", mode, "10,000 hosts / 10 hosts"), f"{mode}: 10,000 hosts / 10 hosts", 1.05),
            (("cost", mode, "10,000 paths / 10 paths"), f"{mode}: 10,000 paths of one host / 10 paths", 1.05),
        )
    ),
    (("changes", "median ms among 10"), "from rename of a file to changed response, 10 routes, median ms", None),
    (("changes", "median ms among 5,000"), "from rename of a file to changed response, 5,000 routes, median ms", 60),
    (("changes", "5,000 / 10"), "from rename of a file to changed response, 5,000 / 10 routes", 2),
    (("changes", "start on 5,000 files, s"), "from start with 5,000 files to a response of the last route, s", 10),
    (("recovery", "longest s of a worker's death"), "outage after varnishd's worker dies, longest of ten, s", 2),
    (
        ("recovery", "longest s of varnishd's death"),
        "outage after varnishd dies (it recompiles its VCL), longest of ten, s",
        None,
    ),
    (("recovery", "longest s of another port"), "outage when a listener's port changes, longest of ten, s", 2),
    (("translation", "translating 5,000 routes, CPU s"), "full translation of 5,000 routes, CPU s", 1),
    (("memory", "memory of ghost for 5,000 routes, MB"), "memory of ghost for 5,000 routes and endpoints, MB", 40),
    (
        ("memory", "counters of varnishd for 5,000 endpoints, MB"),
        "memory of varnishd's own counters for 5,000 endpoints, MB",
        None,
    ),
    *((("operator", key), what, limit) for key, what, limit in OPERATOR),
    (
        ("endpoints", "median ms among 5,000 Services"),
        "from an endpoint's watch event to traffic, 5,000 Services, median ms",
        30,
    ),
    *(
        (("hostile", threat, "hostile / well-behaved"), f"ordinary p99, hostile / well-behaved neighbours: {threat}", 2)
        for threat in (EVERYTHING, *THREATS)
    ),
    (("hostile", EVERYTHING, "p99 ms beside hostile"), "ordinary p99 beside everything hostile at once, ms", None),
    (("hostile", "errors"), "errors of ordinary requests beside hostile neighbours", 0),
    (
        ("regexes", "longest hold of the event loop, ms"),
        "operator: longest hold of its event loop while a route at the CRD's maximum changes, ms",
        100,
    ),
    (
        ("regexes", "median ms of other changes"),
        "operator: from another route's change to written shard meanwhile, median ms",
        None,
    ),
    (
        ("regexes", "95th percentile ms of other changes"),
        "operator: from another route's change to written shard meanwhile, 95th percentile ms",
        30,
    ),
    (
        ("regexes", "most CPU ms of a request"),
        "CPU of varnishd's worker for a request against the worst accepted patterns, ms",
        5,
    ),
    *CACHE,
]


CHARTS = {
    "cost": "CPU per request",
    "cache": "CPU of a hit under a policy, and in other caches",
    "changes": "From rename of a file to changed response",
    "operator": "From route change to written shard",
}


def verdicts(results: dict[str, Any]) -> list[Verdict]:
    """Return a verdict for every value that was measured."""
    found = []
    for path, what, limit in PROMISES:
        value: Any = results
        for step in path:
            value = value.get(step, {})
        if isinstance(value, int | float):
            found.append(Verdict(what, value, limit))
    return found


def table(found: Sequence[Verdict]) -> str:
    """Return the verdicts as a table for a terminal."""
    rows = [("what", "value", "promised", ""), *(verdict.row for verdict in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def write_page(results: dict[str, Any], found: Sequence[Verdict]) -> None:
    """Write docs/reference/benchmarks.md and its charts."""
    (REFERENCE / "benchmarks").mkdir(parents=True, exist_ok=True)
    for name, draw in DRAWINGS.items():
        if name in results:
            draw(results[name])
    (REFERENCE / "benchmarks.md").write_text(page(results, found))


def page(results: dict[str, Any], found: Sequence[Verdict]) -> str:
    """Return the text of docs/reference/benchmarks.md."""
    lines = [
        "# Benchmarks",
        "",
        "`make bench` writes this page. The cost of a request is the CPU time of varnishd's worker, as a ratio to a",
        "plain varnishd with a static VCL, one backend and no routing. Both run interleaved on the same machine. The",
        "noise is the ratio of two plain instances. Figures about Kubernetes come from a real API server and include",
        "its time to store objects and to notify watchers. Hostile neighbours are tenants and clients of the same",
        "Gateway: the p99 of ordinary requests beside them is compared with that beside well-behaved ones, which offer",
        "the same load in their place.",
        "",
        "The cost of a hit under a cache policy is compared with a static VCL that makes the same key by hand: a",
        "header, and the query without parameters of campaigns. nginx and HAProxy serve the same objects to the same",
        "load, with one worker. nginx has the same key, HAProxy's can't be changed. Neither logs requests; varnishd",
        "does, to its shared memory. A purge runs beside 1,000 requests a second, one of twenty a miss; their p99 is",
        "compared with that of the half second before.",
        "",
        f"Machine: {results['machine']}.{_dates(results.get('measured', {}))}",
        "",
        "| What | Value | Promised | |",
        "|---|---|---|---|",
        *("| " + " | ".join(verdict.row) + " |" for verdict in found),
        "",
    ]
    for name, caption in CHARTS.items():
        if name in results:
            lines += [f"![{caption}](benchmarks/{name}.svg)", ""]
    return "\n".join(lines)


def _dates(measured: dict[str, str]) -> str:
    """Return a sentence that says when each part was measured; those with the same date together."""
    by_date: dict[str, list[str]] = {}
    for name, date in sorted(measured.items()):
        by_date.setdefault(date, []).append(name)
    parts = (f"{', '.join(names)} on {date}" for date, names in sorted(by_date.items()))
    return f" Measured: {'; '.join(parts)}." if by_date else ""


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


def _draw_cache(cache: dict[str, Any]) -> None:
    plot = _plot()
    figure, axis = plot.subplots(figsize=(10, 3))
    micros = cache["microseconds per hit"]
    axis.barh(list(micros), list(micros.values()), color="#3b6ea5")
    axis.set_title("CPU per hit, microseconds")
    axis.invert_yaxis()
    _save(figure, "cache.svg")


def _draw_changes(changes: dict[str, Any]) -> None:
    series = ("milliseconds among 10", "milliseconds among 5,000")
    label = "milliseconds from a file's rename to the first changed answer"
    _draw_shares({key: changes[key] for key in series}, label, "changes.svg")


def _draw_operator(operator: dict[str, Any]) -> None:
    series = ("milliseconds among 50", "milliseconds among 5,000")
    label = "milliseconds from a route's change to the written shard"
    _draw_shares({key: operator[key] for key in series}, label, "operator.svg")


def _draw_shares(series: dict[str, list[float]], label: str, name: str) -> None:
    """Draw the share of changes that were complete after a number of milliseconds."""
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
    import matplotlib as mpl  # noqa: PLC0415 slow to import, and only the charts need it

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "varnish-gateway"  # equal results produce identical files
    import matplotlib.pyplot as plt  # noqa: PLC0415 after the backend is chosen

    return plt


def _save(figure: Any, name: str) -> None:
    figure.tight_layout()
    figure.savefig(REFERENCE / "benchmarks" / name, metadata={"Date": None})


DRAWINGS: Mapping[str, Callable[[dict[str, Any]], None]] = {
    "cost": _draw_cost,
    "cache": _draw_cache,
    "changes": _draw_changes,
    "operator": _draw_operator,
}
