"""The VMOD's own tests, ghost/vmod-ghost/tests/*.vtc, run by varnishtest."""

import shutil
import subprocess
from pathlib import Path

import pytest

from support.varnish.ghost import ROOT, VMOD

TESTS = sorted((ROOT / "ghost" / "vmod-ghost" / "tests").glob("*.vtc"))


@pytest.fixture
def vmod(place) -> Path:
    """Copy it to where varnishd's users can read it."""
    return Path(shutil.copy(VMOD, place))


@pytest.mark.parametrize("test", TESTS, ids=lambda path: path.stem)
def test_vtc(test: Path, vmod: Path) -> None:
    command = ["varnishtest", "-D", f"vmod_ghost={vmod}", str(test)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stdout[-6000:]
