"""Every requirement in docs/reference/http-caching.md names tests, and they exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "reference" / "http-caching.md").read_text()
VARNISH = ROOT / "tests" / "varnish"
RUST = ROOT / "ghost" / "ghost-core" / "tests" / "core" / "cache"
TEST = re.compile(r"`(?P<file>\w+\.(?:py|rs))::(?P<name>\w+)`")
OPEN = "Not carried out"


def rows() -> list[tuple[str, list[str]]]:
    """Return the rows of all tables, each with the heading of its section."""
    found = []
    for section in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]:
        heading, _, text = section.partition("\n")
        lines = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
        found += [(heading, [cell.strip() for cell in cells]) for cells in lines[2:]]
    return found


def defined(file: str) -> set[str]:
    """Return the tests of a file."""
    if file.endswith(".py"):
        tree = ast.parse((VARNISH / file).read_text())
        return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}
    return set(re.findall(r"#\[test\]\s*fn (\w+)\(", (RUST / file).read_text()))


NAMED = sorted({(file, name) for _, cells in rows() for file, name in TEST.findall(cells[-1])})


@pytest.mark.parametrize("file", sorted({file for file, _ in NAMED}))
def test_named_tests_exist(file):
    assert {name for owner, name in NAMED if owner == file} <= defined(file)


@pytest.mark.parametrize(("section", "cells"), rows(), ids=lambda value: value if isinstance(value, str) else value[0])
def test_row_is_complete_and_names_its_tests(section, cells):
    assert all(cells)
    if section != OPEN:
        assert TEST.sub("", cells[-1]).strip(", ") == "", "only tests stand in the last column"
        assert TEST.findall(cells[-1])


@pytest.mark.parametrize("section", ["3.1", "3.2", "3.3", "3.4", "3.5", "4.1", "4.2.1", "4.2.2", "4.2.3", "4.2.4"])
def test_sections_of_rfc_9111_about_storing_and_answering_have_rows(section):
    assert any(section in re.split(r", | ", cells[1]) for heading, cells in rows() if heading.startswith("RFC 9111"))


@pytest.mark.parametrize("section", [*(f"5.2.1.{n}" for n in range(1, 8)), *(f"5.2.2.{n}" for n in range(1, 11))])
def test_every_directive_has_a_row(section):
    assert any(section in cells[1].split(", ") for _, cells in rows())


def test_model_of_the_rfc_exists():
    assert (ROOT / "tests" / "property" / "test_cache_model.py").exists()
