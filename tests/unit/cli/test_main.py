"""The command line as a whole."""

import subprocess
import sys

import pytest

from varnish_gateway.cli.main import COMMANDS, main
from varnish_gateway.version import VERSION


def test_version(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"vgw {VERSION}\n"
    assert VERSION.startswith("v")


@pytest.mark.parametrize("command", [module.__name__.rpartition(".")[2] for module in COMMANDS])
def test_help_of_every_command(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert f"usage: vgw {command}" in capsys.readouterr().out


def test_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "varnish_gateway", "--version"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, f"vgw {VERSION}\n")
