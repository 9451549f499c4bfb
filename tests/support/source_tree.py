"""The tree as structure tests read it.

In:   the files of a checkout, without what was built.
Out:  Python modules with their syntax trees and imports, Rust files, and passages that occur more than once.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import combinations
from pathlib import Path

ROOT = Path(__file__).parents[2]
PASSAGE = 6
"""So many lines in a row make a passage."""
BUILT = {"target", "__pycache__"}
_THIN = re.compile(r"^\W*$|^(#|//|use |pub use |mod |pub mod )")
"""Lines that carry no logic: punctuation, comments, imports."""


def files(folder: str, suffix: str) -> list[Path]:
    """Return the files below a folder of the tree, relative to its root."""
    found = (path.relative_to(ROOT) for path in (ROOT / folder).rglob(f"*{suffix}"))
    return sorted(path for path in found if not BUILT & set(path.parts))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text())


def imported(path: Path) -> Iterator[str]:
    """Yield the modules that a Python file imports; of ``from a import b`` both ``a`` and ``a.b``."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(parsed(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def public_classes(path: Path) -> Iterator[str]:
    return (
        node.name for node in ast.walk(parsed(path)) if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )


def repeated_passages(paths: Iterable[Path]) -> dict[tuple[str, str], tuple[int, int]]:
    """Return pairs of files that share a passage to the letter, with the lines at which it starts in each."""
    places: dict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
    for path in paths:
        lines = list(_significant(path))
        for start in range(len(lines) - PASSAGE + 1):
            window = lines[start : start + PASSAGE]
            places[tuple(text for _, text in window)].append((str(path), window[0][0]))
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for where in places.values():
        for (one, line), (other, other_line) in combinations(where, 2):
            if one != other or abs(line - other_line) >= PASSAGE:
                found.setdefault((one, other), (line, other_line))
    return found


def _significant(path: Path) -> Iterator[tuple[int, str]]:
    imports = _import_lines(path) if path.suffix == ".py" else set()
    for number, line in enumerate((ROOT / path).read_text().splitlines(), start=1):
        text = " ".join(line.split())
        if number not in imports and not _THIN.match(text):
            yield number, text


def _import_lines(path: Path) -> set[int]:
    """Return the lines of import statements, also of those in parentheses."""
    nodes = (node for node in ast.walk(parsed(path)) if isinstance(node, ast.Import | ast.ImportFrom))
    return {line for node in nodes for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
