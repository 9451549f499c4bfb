"""One varnishd process: its arguments, its output, its end.

In:   Settings, a Layout, an Admin that listens, a callback.
Out:  a manager process that has called the Admin and holds no VCL yet. Every line that it
writes goes to the log; a line that tells of its worker's end is also reported.
``stop`` leaves no process behind, and neither does our own death.
"""

import asyncio
import contextlib
import logging
import os
import re
import signal
import time
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import Callable, Sequence
from pathlib import Path

from varnish_gateway import errors
from varnish_gateway.chaperone.lifeline import Lifeline
from varnish_gateway.chaperone.settings import Settings
from varnish_gateway.chaperone.sockets import Socket
from varnish_gateway.chaperone.varnishadm import Admin
from varnish_gateway.chaperone.workdir import Layout

STOP_SECONDS = 5.0
POLL_SECONDS = 0.01
LINE_LIMIT = 1 << 20  # a panic is one long message

log = logging.getLogger(__name__)

_CHILD_GONE = re.compile(r"Child \(\d+\) (?:died (.*)|(ended)$)")
_LEVELS = {"Error": logging.ERROR, "Warning": logging.WARNING, "Info": logging.INFO, "Debug": logging.DEBUG}


def arguments(settings: Settings, layout: Layout, sockets: Sequence[Socket], admin_port: int) -> list[str]:
    """Return varnishd's command line. What the user added comes last, and so wins."""
    argv = ["varnishd", "-F", "-f", "", "-M", f"127.0.0.1:{admin_port}", "-S", str(layout.secret_path)]
    argv += ["-n", str(layout.varnish_dir)]
    for socket in sockets:
        argv += ["-a", socket.argument]
    for storage in settings.storage:
        argv += ["-s", storage]
    return [*argv, "-p", "feature=+http2", *settings.extra_args]


class Varnishd:
    """A running manager. ``child_gone`` is called with the reason that its output gives."""

    def __init__(self, process: Process, lifeline: Lifeline, child_gone: Callable[[str], None]) -> None:
        self._process = process
        self._lifeline = lifeline
        self._child_gone = child_gone
        self._last_error = "it did not say why"
        self._stopping = False
        self._output = asyncio.create_task(self._read_output())

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.returncode is None

    async def exited(self) -> str:
        """Wait for the end of the process and return how it ended, with its own words."""
        status = await self._process.wait()
        await self._lifeline.release()
        await self._output
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
        return f"varnishd ended with {how}: {self._last_error}" if status > 0 else f"varnishd ended with {how}"

    async def stop(self) -> None:
        """End the manager, which ends its worker; by force if it takes too long."""
        self._stopping = True
        if self.running:
            self._process.terminate()
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    await self._process.wait()
            except TimeoutError:
                self._process.kill()
        await self._process.wait()
        await self._lifeline.release()
        await self._output

    async def _read_output(self) -> None:
        stream = self._process.stdout
        assert stream is not None  # noqa: S101 - asked for with PIPE
        async for raw in stream:
            self._take_line(raw.decode(errors="replace").rstrip())

    def _take_line(self, line: str) -> None:
        if not line:
            return
        word = line.partition(":")[0]
        # varnishd calls the SIGTERM that we send an error.
        level = logging.INFO if self._stopping else _LEVELS.get(word, logging.INFO)
        log.log(level, "%s", line, extra={"component": "varnishd", "pid": self.pid})
        if word == "Error":
            self._last_error = line.partition(": ")[2]
        if gone := _CHILD_GONE.search(line):
            self._child_gone(gone[1] or gone[2])


async def launch(
    argv: Sequence[str],
    layout: Layout,
    admin: Admin,
    child_gone: Callable[[str], None],
) -> Varnishd:
    """Start varnishd and return when it has called the admin; raise ChildExited if it ends before."""
    await end_leftover(layout.varnish_dir)
    admin.forget()
    environment = {**os.environ, "GHOST_CONFIG_PATH": str(layout.ghost_config_path)}
    try:
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, env=environment, limit=LINE_LIMIT, start_new_session=True
        )
    except FileNotFoundError:
        raise errors.ChildExited("varnishd is not installed or not on PATH") from None
    try:
        lifeline = await Lifeline.to(process.pid)
    except BaseException:
        process.kill()  # it has no worker yet
        raise
    varnishd = Varnishd(process, lifeline, child_gone)
    try:
        await _called(varnishd, admin)
    except BaseException:
        await varnishd.stop()
        raise
    return varnishd


async def _called(varnishd: Varnishd, admin: Admin) -> None:
    """Return when varnishd has called; raise ChildExited if it ends instead."""
    exited = asyncio.ensure_future(varnishd.exited())
    connected = asyncio.ensure_future(admin.connected())
    try:
        await asyncio.wait({exited, connected}, return_when=asyncio.FIRST_COMPLETED)
        if exited.done():
            raise errors.ChildExited(exited.result())
        connected.result()
    finally:
        exited.cancel()
        connected.cancel()


async def end_leftover(varnish_dir: Path) -> None:
    """End a varnishd that an earlier chaperone, killed by force, left behind in our directory."""
    pid = _leftover(varnish_dir)
    if pid is None:
        return
    log.warning("ending a varnishd that was left behind", extra={"pid": pid})
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)  # it ends its worker first, and so gives the ports back
    deadline = time.monotonic() + STOP_SECONDS
    while _leftover(varnish_dir) == pid:
        if time.monotonic() > deadline:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await asyncio.sleep(POLL_SECONDS)


def _leftover(varnish_dir: Path) -> int | None:
    """Return the process that works in the directory, if there is one and it is a varnishd."""
    try:
        pid = int((varnish_dir / "_.pid").read_text())
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return None
    return pid if str(varnish_dir).encode() in command else None
