"""Tests import the package, tests/support and tools, and never each other."""

import sys

from support.source_tree import files, imported

TIERS = {"unit", "golden", "property", "simulation", "varnish", "sanitizer", "apiserver", "images"}
TEST_FILES = [path for path in files("tests", ".py") if "support" not in path.parts]
SUPPORT = files("tests/support", ".py")
TOOLS = files("tools", ".py")


def of_tests(modules: set[str]) -> set[str]:
    """Return those modules that are a tier's, or a test file or conftest of any folder."""
    parts = {module: module.split(".") for module in modules}
    return {
        module
        for module, names in parts.items()
        if names[0] in TIERS | {"tests"} or any(name == "conftest" or name.startswith("test_") for name in names)
    }


def test_a_test_file_imports_no_tier_and_no_test_file():
    assert {path: found for path in TEST_FILES if (found := of_tests(set(imported(path))))} == {}


def test_support_imports_no_tests():
    assert {path: found for path in SUPPORT if (found := of_tests(set(imported(path))))} == {}


def test_tools_import_neither_tests_nor_support():
    forbidden = {path: {m for m in imported(path) if m.split(".")[0] == "support"} for path in TOOLS}
    assert {path: found for path in TOOLS if (found := of_tests(set(imported(path))) | forbidden[path])} == {}


def test_helpers_of_tests_are_in_support():
    names = {str(path) for path in TEST_FILES if path.name != "conftest.py" and not path.name.startswith("test_")}
    assert names == set()


def test_no_tier_hides_a_module_of_the_standard_library():
    """Tiers are on the search path, as folders without __init__.py: the standard library and tools/cluster win."""
    assert {tier for tier in TIERS if tier in sys.stdlib_module_names} == set()
