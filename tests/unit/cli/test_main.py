"""The command line as a whole."""

import subprocess
import sys

import pytest

from varnish_gateway.cli import translate
from varnish_gateway.cli.main import COMMANDS, main
from varnish_gateway.version import VERSION

NAMES = [module.__name__.rpartition(".")[2] for module in COMMANDS]
SLOW = {"aiohttp", "asyncio", "cryptography", "logging", "msgspec", "ssl", "yaml"}
"""What a command's code imports, and the command line itself must not."""


def test_version_is_printed(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"vgw {VERSION}\n"
    assert VERSION.startswith("v")


@pytest.mark.parametrize("command", NAMES)
def test_every_command_has_a_help_text(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert f"usage: vgw {command}" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], *([name, "--help"] for name in NAMES)], ids=" ".join)
def test_version_and_help_import_no_code_of_a_command(arguments):
    program = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        "from varnish_gateway.cli.main import main\n"
        f"main({arguments!r})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    imported = {name.partition(".")[0] for name in done.stderr.split()}
    assert "argparse" in imported
    assert imported & SLOW == set()


def test_package_runs_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "varnish_gateway", "--version"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, f"vgw {VERSION}\n")


def test_interrupt_exits_without_a_traceback(monkeypatch):
    def interrupted(_arguments: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(translate, "execute", interrupted)
    assert main(["translate", "x"]) == 130


@pytest.mark.parametrize("directory", ["/proc/nowhere", "/dev/null"])
def test_work_directory_that_cannot_be_created_is_rejected_at_once(directory, tmp_path, capsys):
    assert main(["run", str(tmp_path), "--work-dir", directory]) == 2
    assert f"--work-dir: can't create {directory}" in capsys.readouterr().err


def test_tokens_without_an_address_to_use_them_at_are_rejected(tmp_path, capsys):
    assert main(["run", str(tmp_path), "--invalidation-tokens", str(tmp_path / "tokens.json")]) == 2
    assert "--invalidation-tokens: without --health-addr there is no /invalidate" in capsys.readouterr().err
