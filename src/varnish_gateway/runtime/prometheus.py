"""Lines of Prometheus' text format.

In:   names, labels and values.
Out:  lines without their line ends.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def family(name: str, kind: str, help_text: str, samples: Iterable[tuple[Mapping[str, str], float]]) -> Iterator[str]:
    """Yield one metric with its samples."""
    yield f"# HELP {name} {help_text}"
    yield f"# TYPE {name} {kind}"
    for labels, value in samples:
        yield sample(name, labels, value)


def histogram(
    name: str, help_text: str, samples: Iterable[tuple[Mapping[str, str], Mapping[str, Any]]]
) -> Iterator[str]:
    """Yield one histogram. Each sample has cumulative ``buckets``, their ``count`` and a ``sum``."""
    yield f"# HELP {name} {help_text}"
    yield f"# TYPE {name} histogram"
    for labels, counts in samples:
        for bucket in counts["buckets"]:
            yield sample(f"{name}_bucket", {**labels, "le": str(bucket["le"])}, bucket["count"])
        yield sample(f"{name}_bucket", {**labels, "le": "+Inf"}, counts["count"])
        yield sample(f"{name}_sum", labels, counts["sum"])
        yield sample(f"{name}_count", labels, counts["count"])


def sample(name: str, labels: Mapping[str, str], value: float) -> str:
    """Return one line."""
    inner = ",".join(f'{label}="{_escape(text)}"' for label, text in labels.items())
    return f"{name}{{{inner}}} {value}" if inner else f"{name} {value}"


def labelled(label: str, pages: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Join pages into one: samples get a label with the name of their page, and each metric comes once."""
    heads: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for name, lines in pages.items():
        metric = ""
        for line in lines:
            if line.startswith("# HELP "):
                metric = line.split(" ", 3)[2]
                heads.setdefault(metric, [])
            if line.startswith("#"):
                heads[metric] += [] if line in heads[metric] else [line]
            else:
                samples.setdefault(metric, []).append(_with_label(line, label, name))
    for metric, head in heads.items():
        yield from head
        yield from samples.get(metric, ())


def _with_label(line: str, label: str, value: str) -> str:
    """Return a sample with one more label, before the others."""
    head, brace, rest = line.partition("{")
    if brace:
        return f'{head}{{{label}="{_escape(value)}",{rest}'
    head, _, number = line.partition(" ")
    return f'{head}{{{label}="{_escape(value)}"}} {number}'


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
