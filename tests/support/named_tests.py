"""Tests that pages of the documentation name in their tables.

In:   a page; the file of a test.
Out:  the rows of its tables, the tests that a cell names, the tests that a file defines.
"""

import ast
import re
from pathlib import Path
from typing import NamedTuple

TEST = re.compile(r"`(?P<file>[\w./-]+\.(?:py|rs))::(?P<name>\w+)`")


class Row(NamedTuple):
    """A row of a table, with the heading of the section that it is in."""

    section: str
    cells: list[str]


def rows(page: str) -> list[Row]:
    """Return the rows of all tables of a page."""
    found = []
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        heading, _, text = section.partition("\n")
        lines = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
        found += [Row(heading, [cell.strip() for cell in cells]) for cells in lines[2:]]
    return found


def named(cell: str) -> list[tuple[str, str]]:
    """Return the tests in a cell, each with its file."""
    return TEST.findall(cell)


def names_tests_alone(cell: str) -> bool:
    """Whether a cell names tests, and nothing stands beside them."""
    return bool(named(cell)) and TEST.sub("", cell).strip(", ") == ""


def defined(file: Path) -> set[str]:
    """Return the tests of a file."""
    text = file.read_text()
    if file.suffix == ".py":
        functions = (node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
        return {node.name for node in functions if node.name.startswith("test_")}
    return set(re.findall(r"#\[test\]\s*fn (\w+)\(", text))
