"""The VMOD's own tests, ghost/vmod-ghost/tests/*.vtc, run by varnishtest."""

import shutil
import subprocess
from pathlib import Path

import pytest
from ghostlab import ROOT, VMOD

TESTS = sorted((ROOT / "ghost" / "vmod-ghost" / "tests").glob("*.vtc"))


@pytest.mark.parametrize("test", TESTS, ids=lambda path: path.stem)
def test_vtc(test: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The directory is one that varnishd's users can traverse, so not pytest's own."""
    directory = Path("/tmp") / f"ghost-vtc-{tmp_path_factory.mktemp('vtc').name}-{test.stem}"
    directory.mkdir()
    directory.chmod(0o755)
    try:
        vmod = shutil.copy(VMOD, directory / "libvmod_ghost.so")
        command = ["varnishtest", "-D", f"vmod_ghost={vmod}", "-D", f"dir={directory}", str(test)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
        assert done.returncode == 0, done.stdout[-6000:]
    finally:
        shutil.rmtree(directory)
