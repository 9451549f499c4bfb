"""Every requirement in docs/reference/http-caching.md names tests, and they exist."""

import re

import pytest

from support.named_tests import defined, named, names_tests_alone, rows
from support.source_tree import ROOT

ROWS = rows((ROOT / "docs" / "reference" / "http-caching.md").read_text())
TESTS = {
    ".py": ROOT / "tests" / "varnish",
    ".rs": ROOT / "ghost" / "ghost-core" / "tests" / "core" / "cache",
}
"""Where the files of this page are, by their suffix."""
OPEN = "Not carried out"

NAMED = sorted({test for row in ROWS for test in named(row.cells[-1])})


@pytest.mark.parametrize("file", sorted({file for file, _ in NAMED}))
def test_named_tests_exist(file):
    path = TESTS[file[-3:]] / file
    assert {name for owner, name in NAMED if owner == file} <= defined(path)


@pytest.mark.parametrize(("section", "cells"), ROWS, ids=lambda value: value if isinstance(value, str) else value[0])
def test_row_is_complete_and_names_its_tests(section, cells):
    assert all(cells)
    if section != OPEN:
        assert names_tests_alone(cells[-1]), "only tests stand in the last column"


@pytest.mark.parametrize("section", ["3.1", "3.2", "3.3", "3.4", "3.5", "4.1", "4.2.1", "4.2.2", "4.2.3", "4.2.4"])
def test_sections_of_rfc_9111_about_storing_and_answering_have_rows(section):
    assert any(section in re.split(r", | ", row.cells[1]) for row in ROWS if row.section.startswith("RFC 9111"))


@pytest.mark.parametrize("section", [*(f"5.2.1.{n}" for n in range(1, 8)), *(f"5.2.2.{n}" for n in range(1, 11))])
def test_every_directive_has_a_row(section):
    assert any(section in row.cells[1].split(", ") for row in ROWS)


def test_model_of_the_rfc_exists():
    assert (ROOT / "tests" / "property" / "test_cache_model.py").exists()
