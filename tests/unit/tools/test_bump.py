"""Versions go up as semantic versioning says, everywhere at once."""

import importlib.util
import shutil
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
CHART = "charts/varnish-gateway/Chart.yaml"

_spec = importlib.util.spec_from_file_location("bump", ROOT / "tools" / "bump.py")
bump = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(bump)


@pytest.mark.parametrize(("part", "new"), [("patch", "v1.2.4"), ("minor", "v1.3.0"), ("major", "v2.0.0")])
def test_bumped(part, new):
    assert bump.bumped("v1.2.3", part) == new


def test_everything_that_repeats_the_version_follows(tmp_path):
    for name in (".version", "ghost/Cargo.toml", CHART):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    bump.write(tmp_path, "v9.8.7")
    assert (tmp_path / ".version").read_text() == "v9.8.7\n"
    assert 'version = "9.8.7"' in (tmp_path / "ghost/Cargo.toml").read_text()
    before, after = (yaml.safe_load((root / CHART).read_text()) for root in (ROOT, tmp_path))
    assert after == before | {"version": "9.8.7", "appVersion": "v9.8.7"}


def test_the_chart_has_the_version_of_the_tree():
    version = (ROOT / ".version").read_text().strip()
    chart = yaml.safe_load((ROOT / CHART).read_text())
    assert (chart["version"], chart["appVersion"]) == (version[1:], version)
