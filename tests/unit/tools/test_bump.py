"""Versions go up as semantic versioning says."""

import importlib.util
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location("bump", Path(__file__).parents[3] / "tools" / "bump.py")
bump = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(bump)


@pytest.mark.parametrize(("part", "new"), [("patch", "v1.2.4"), ("minor", "v1.3.0"), ("major", "v2.0.0")])
def test_bumped(part, new):
    assert bump.bumped("v1.2.3", part) == new
