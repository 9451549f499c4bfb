"""The VMOD's own tests, ghost/vmod-ghost/tests/*.vtc, run by varnishtest with the VCL that ships."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support.varnish.ghost import ROOT, VMOD
from varnish_gateway.emit.vcl import POSTAMBLE, PREAMBLE

TESTS = sorted((ROOT / "ghost" / "vmod-ghost" / "tests").glob("*.vtc"))


@pytest.fixture
def frame(workdir) -> Path:
    """Return a directory that varnishd's users can read, with the VMOD and both parts of main.vcl."""
    shutil.copy(VMOD, workdir / "libvmod_ghost.so")
    (workdir / "preamble.vcl").write_text(PREAMBLE)
    (workdir / "postamble.vcl").write_text(POSTAMBLE)
    return workdir


@pytest.mark.parametrize("test", TESTS, ids=lambda path: path.stem)
def test_vtc(test: Path, frame: Path) -> None:
    command = ["varnishtest", "-D", f"frame={frame}", str(test)]
    environment = {name: value for name, value in os.environ.items() if name != "GHOST_CONFIG_PATH"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stdout[-6000:]
