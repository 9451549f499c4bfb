"""Record the session of the README: ``make recording``.

A copy of examples/cafe is served by a real ``vgw run``. The script runs the commands that the
picture shows, one after another, in a real shell, and draws what they printed. The time that it
shows was measured: from the moment when sed has renamed the edited file to the first response
of the other backend.
"""

import asyncio
import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from recording.terminal_svg import Command, render

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs" / "assets" / "recording.svg"
TITLE = "vgw run cafe/ is running in another terminal"
CURL = "curl -H 'Host: cafe.example.com' localhost:8080/tea"
EDIT = "sed -i 's/- name: tea/- name: coffee/' cafe/routes.yaml"
EXPLAIN = "vgw explain cafe/ GET http://cafe.example.com:8080/tea"
DEADLINE_SECONDS = 30.0

_spec = importlib.util.spec_from_file_location("demo", ROOT / "examples" / "demo.py")
assert _spec is not None
assert _spec.loader is not None
demo = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(demo)


def shell(command: str, directory: Path) -> Command:
    """Run a command as a user would; return it with what it printed."""
    environment = {**os.environ, "PATH": f"{directory / 'bin'}:{os.environ['PATH']}", "NO_COLOR": "1"}
    done = subprocess.run(
        ["bash", "-c", command.replace("curl ", "curl -sS ")],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return Command(command, tuple(done.stdout.splitlines()))


def ask() -> str:
    """Return the first line of the gateway's response, or the error instead of one."""
    request = urllib.request.Request("http://127.0.0.1:8080/tea", headers={"Host": "cafe.example.com"})
    try:
        with urllib.request.urlopen(request, timeout=5) as response:
            return str(response.read().decode().splitlines()[0])
    except OSError as problem:
        return str(problem)


def seconds_until(start: str) -> float:
    """Ask until a response begins like this; return how long that took."""
    began = time.monotonic()
    while not (answer := ask()).startswith(start):
        if time.monotonic() - began > DEADLINE_SECONDS:
            sys.exit(f"no response began with {start!r} in time; the last was {answer!r}")
    return time.monotonic() - began


def record(directory: Path) -> list[Command]:
    """Go through the session; ``vgw run`` serves the directory's cafe already."""
    seconds_until("tea:")
    before = shell(CURL, directory)
    edit = shell(EDIT, directory)
    milliseconds = 1000 * seconds_until("coffee:")
    measured = edit._replace(output=(f"# {milliseconds:.0f} ms later:",))
    return [before, measured, shell(CURL, directory), shell(EXPLAIN, directory)]


def prepare(directory: Path) -> None:
    """Put the cafe, and vgw under its own name, into a directory."""
    shutil.copytree(ROOT / "examples" / "cafe", directory / "cafe")
    (directory / "bin").mkdir()
    vgw = directory / "bin" / "vgw"
    vgw.write_text(f'#!/bin/sh\nexec {sys.executable} -m varnish_gateway "$@"\n')
    vgw.chmod(0o755)


async def main() -> None:
    async with contextlib.AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        prepare(directory)
        await demo.serve_origins(stack, demo.origins_of(directory / "cafe"))
        command = [sys.executable, "-m", "varnish_gateway", "run", str(directory / "cafe")]
        gateway = await asyncio.create_subprocess_exec(*command, stderr=subprocess.DEVNULL)
        try:
            session = await asyncio.to_thread(record, directory)
        finally:
            gateway.terminate()
            await gateway.wait()
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(render(session, title=TITLE))
    print(f"wrote {PICTURE.relative_to(ROOT)}")


if __name__ == "__main__":
    asyncio.run(main())
