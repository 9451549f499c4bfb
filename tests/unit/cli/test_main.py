"""The command line as a whole."""

import subprocess
import sys

import pytest

from varnish_gateway.cli import translate
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


def test_an_interrupt_ends_without_a_traceback(monkeypatch):
    def interrupted(_arguments: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(translate, "execute", interrupted)
    assert main(["translate", "x"]) == 130


@pytest.mark.parametrize("directory", ["/proc/nowhere", "/dev/null"])
def test_a_work_directory_that_cannot_be_is_refused_at_once(directory, tmp_path, capsys):
    assert main(["run", str(tmp_path), "--work-dir", directory]) == 2
    assert f"--work-dir: {directory} can't be made" in capsys.readouterr().err
