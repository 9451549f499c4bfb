"""CONTRIBUTING's recipes name files that exist, and stay short."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SECTION = (ROOT / "CONTRIBUTING.md").read_text().partition("## Recipes")[2].partition("\n## ")[0]
RECIPES = dict(re.findall(r"^### (.+?)\n(.*?)(?=^### |\Z)", SECTION, re.MULTILINE | re.DOTALL))
ROW = re.compile(r"^\| (?:`(?P<existing>[^`]+)`|\*new\* (?P<new>\S+)) \| .+ \|$", re.MULTILINE)


def test_recipes_are_there():
    assert list(RECIPES) == [
        "Add a filter",
        "Add a parameter that changes pods",
        "Add a metric",
        "Add a policy kind",
        "Change retry behaviour",
    ]


def test_rows_of_a_recipe_name_a_file_each():
    for text in RECIPES.values():
        rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| File ")]
        assert len(rows) == len(ROW.findall(text)) > 5


@pytest.mark.parametrize("recipe", RECIPES)
def test_files_of_a_recipe_exist(recipe):
    names = [row["existing"] for row in ROW.finditer(RECIPES[recipe]) if row["existing"]]
    assert [name for name in names if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize("recipe", RECIPES)
def test_new_files_of_a_recipe_are_not_there_yet(recipe):
    names = [row["new"] for row in ROW.finditer(RECIPES[recipe]) if row["new"]]
    assert [name for name in names if (ROOT / name).exists()] == []


def test_policy_kind_needs_at_most_12_files():
    assert len(ROW.findall(RECIPES["Add a policy kind"])) <= 12
