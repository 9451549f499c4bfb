"""Every promise in docs/contributing/hardening.md names what breaks it and the tests that show it, and these exist."""

import pytest

from support.named_tests import defined, named, names_tests_alone, rows
from support.source_tree import ROOT

ROWS = rows((ROOT / "docs" / "contributing" / "hardening.md").read_text())
NAMED = sorted({test for row in ROWS for test in named(row.cells[-1])})


@pytest.mark.parametrize("file", sorted({file for file, _ in NAMED}))
def test_named_tests_exist(file):
    assert {name for owner, name in NAMED if owner == file} <= defined(ROOT / file)


@pytest.mark.parametrize("cells", [row.cells for row in ROWS], ids=[row.cells[1] for row in ROWS])
def test_promise_has_a_mutation_and_tests(cells):
    assert all(cells[1:])
    assert names_tests_alone(cells[-1]), "only tests stand in the last column"
