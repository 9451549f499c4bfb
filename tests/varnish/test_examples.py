"""Every example does what its README shows.

The console blocks of ``examples/*/README.md`` are run against a real gateway; ports are
replaced by free ones, everything else is as it is written.
"""

import asyncio
import contextlib
import importlib.util
import re
import shutil
from pathlib import Path

import pytest

from loopback import free_port
from support.vgw_process import vgw_run

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/README.md"))

_spec = importlib.util.spec_from_file_location("demo", EXAMPLES / "demo.py")
demo = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(demo)


def moved_to_free_ports(name: str, to: Path) -> Path:
    """Copy an example with its listeners and origins on free ports."""
    directory = to / name
    shutil.copytree(EXAMPLES / name, directory)
    listeners = set(re.findall(r"port: (\d+)", (directory / "gateway.yaml").read_text()))
    origins = set(re.findall(r"port: (9\d{3})", (directory / "services.yaml").read_text()))
    new = {port: str(free_port()) for port in listeners | origins}
    _replace(directory / "gateway.yaml", r"(?<=port: )\d+", new)
    _replace(directory / "services.yaml", r"(?<=port: )9\d{3}", new)
    for path in directory.glob("*.*"):
        _replace(path, r"(?<=http-)\d+|(?<=localhost:)\d+|(?<=example.com:)\d+", new)
    return directory


def _replace(path: Path, pattern: str, new: dict[str, str]) -> None:
    path.write_text(re.sub(pattern, lambda found: new.get(found[0], found[0]), path.read_text()))


def shown(directory: Path) -> list[tuple[str, str]]:
    """Return commands and what they print, as the README shows them."""
    blocks = re.findall(r"```console\n(.*?)```", (directory / "README.md").read_text(), re.DOTALL)
    return [
        (command, printed)
        for block in blocks
        for command, printed in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    ]


async def printed_by(command: str) -> str:
    shell = await asyncio.create_subprocess_shell(command, stdout=asyncio.subprocess.PIPE)
    output, _ = await shell.communicate()
    return output.decode().replace("\r", "")


@pytest.mark.parametrize("name", NAMES)
async def test_example_does_what_its_readme_shows(name, tmp_path):
    directory = moved_to_free_ports(name, tmp_path)
    commands = shown(directory)
    assert commands
    async with contextlib.AsyncExitStack() as stack:
        await demo.serve_origins(stack, demo.origins_of(directory))
        gateway = await stack.enter_async_context(vgw_run(directory))
        await gateway.wait_for_programmed()
        for command, expected in commands:
            silent = command.replace("curl ", "curl -s ", 1)
            assert await printed_by(silent) == expected, command


async def test_canary_splits_by_weight(tmp_path):
    directory = moved_to_free_ports("canary", tmp_path)
    port = re.search(r"port: (\d+)", (directory / "gateway.yaml").read_text())[1]
    async with contextlib.AsyncExitStack() as stack:
        await demo.serve_origins(stack, demo.origins_of(directory))
        gateway = await stack.enter_async_context(vgw_run(directory))
        await gateway.wait_for_programmed()
        # One curl, many requests: the range in braces makes them.
        output = await printed_by(f"curl -s -H 'Host: shop.example.com' 'localhost:{port}/[1-1000]'")
    answers = re.findall(r"^shop-v(\d):", output, re.MULTILINE)
    assert len(answers) == 1000
    # 10 % of 1,000 is 100; five standard deviations of a binomial are 47.
    assert 53 <= answers.count("2") <= 147
