"""The VMOD's own tests, ghost/vmod-ghost/tests/*.vtc, run by varnishtest."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from ghostlab import ROOT, VMOD

TESTS = sorted((ROOT / "ghost" / "vmod-ghost" / "tests").glob("*.vtc"))


@pytest.fixture
def vmod() -> Iterator[Path]:
    """Copy it to a directory that varnishd's users can traverse, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="ghost-vtc-") as directory:
        Path(directory).chmod(0o755)
        yield Path(shutil.copy(VMOD, directory))


@pytest.mark.parametrize("test", TESTS, ids=lambda path: path.stem)
def test_vtc(test: Path, vmod: Path) -> None:
    command = ["varnishtest", "-D", f"vmod_ghost={vmod}", str(test)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stdout[-6000:]
