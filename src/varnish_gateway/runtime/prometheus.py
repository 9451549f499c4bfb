"""Lines of Prometheus' text format.

In:   names, labels and values.
Out:  lines without their line ends.
"""

from collections.abc import Iterable, Iterator, Mapping


def family(name: str, kind: str, help_text: str, samples: Iterable[tuple[Mapping[str, str], float]]) -> Iterator[str]:
    """Yield one metric with its samples."""
    yield f"# HELP {name} {help_text}"
    yield f"# TYPE {name} {kind}"
    for labels, value in samples:
        yield sample(name, labels, value)


def sample(name: str, labels: Mapping[str, str], value: float) -> str:
    """Return one line."""
    inner = ",".join(f'{label}="{_escape(text)}"' for label, text in labels.items())
    return f"{name}{{{inner}}} {value}" if inner else f"{name} {value}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
