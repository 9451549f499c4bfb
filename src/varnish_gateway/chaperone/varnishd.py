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
from typing import NamedTuple

from varnish_gateway import errors
from varnish_gateway.chaperone.lifeline import Lifeline
from varnish_gateway.chaperone.settings import Settings
from varnish_gateway.chaperone.sockets import Socket
from varnish_gateway.chaperone.varnishadm import Admin
from varnish_gateway.chaperone.workdir import Layout

STOP_SECONDS = 5.0
POLL_SECONDS = 0.01
LINE_LIMIT = 1 << 20  # a panic is one long message
# A head may take 32 KB (http_req_size, http_resp_size) in whatever lines it comes, as with other
# gateways; the workspaces hold it, its rewritten copy and the table of its headers. A WebSocket
# may be silent for an hour.
PARAMETERS = tuple(
    word
    for parameter in (
        "feature=+http2",
        "http_max_hdr=128",
        "http_req_hdr_len=32k",
        "http_resp_hdr_len=32k",
        "pipe_timeout=3600",
        "workspace_client=96k",
        "workspace_backend=128k",
    )
    for word in ("-p", parameter)
)

log = logging.getLogger(__name__)

_CHILD_GONE = re.compile(r"Child \(\d+\) (?:died (.*)|(ended)$)")
_LEVELS = {"Error": logging.ERROR, "Warning": logging.WARNING, "Info": logging.INFO, "Debug": logging.DEBUG}


class Command(NamedTuple):
    """What varnishd has to be restarted for."""

    sockets: tuple[Socket, ...]
    extra_args: tuple[str, ...] = ()


def arguments(settings: Settings, layout: Layout, command: Command, admin_port: int) -> list[str]:
    """Return varnishd's command line. What the user added comes last, and so wins."""
    argv = ["varnishd", "-F", "-f", "", "-M", f"127.0.0.1:{admin_port}", "-S", str(layout.secret_path)]
    argv += ["-n", str(layout.varnish_dir)]
    for socket in command.sockets:
        argv += ["-a", socket.argument]
    for storage in settings.storage:
        argv += ["-s", storage]
    return [*argv, *PARAMETERS, *command.extra_args]


async def refusal(extra_args: Sequence[str]) -> errors.ChildExited | None:
    """Return what varnishd has against arguments, without a varnishd that could be disturbed."""
    process = await asyncio.create_subprocess_exec(
        *("varnishd", "-C", "-b", "none", *PARAMETERS, *extra_args), stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE
    )
    _, said = await process.communicate()
    if process.returncode == 0:
        return None
    words = " ".join(said.decode(errors="replace").split())
    return errors.ChildExited(f"varnishd refuses its extra arguments: {words.removeprefix('Error: ')}")


class Varnishd:
    """A running manager. ``child_gone`` is called with the reason that its output gives."""

    def __init__(self, process: Process, lifeline: Lifeline, child_gone: Callable[[str], None]) -> None:
        self._process = process
        self._lifeline = lifeline
        self._child_gone = child_gone
        self._last_error: list[str] = []
        self._level = logging.INFO
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
        why = " ".join(self._last_error) or "it did not say why"
        return f"varnishd ended with {how}: {why}" if status > 0 else f"varnishd ended with {how}"

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
        word, _, rest = line.partition(":")
        if word in _LEVELS:
            self._level = _LEVELS[word]
            self._last_error = [] if word == "Error" else self._last_error
        # A line without a level goes on with what the one before it said.
        if self._level == logging.ERROR and (text := rest.strip() if word == "Error" else line):
            self._last_error.append(text)
        # varnishd calls the SIGTERM that we send an error, and misses files of a VCL that did not compile.
        level = logging.DEBUG if self._stopping or line.startswith("Could not delete 'vcl_") else self._level
        log.log(level, "%s", line, extra={"component": "varnishd", "pid": self.pid})
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
