"""One HAProxy: a master process, the worker that serves, and former workers that finish.

In:   its working directory, which holds its configuration.
Out:  a process that serves it. ``stop`` leaves no process behind, and neither does our own death.
"""

import asyncio
import contextlib
import logging
import re
import signal
import time
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from pathlib import Path

from varnish_gateway import errors
from varnish_gateway.dataplane.process.child import LINE_LIMIT, Child, killed, lifeline_to, stop_leftover
from varnish_gateway.dataplane.process.lifeline import Lifeline
from varnish_gateway.dataplane.tls.admin import AdminSocket
from varnish_gateway.dataplane.tls.store import PID_FILE
from varnish_gateway.emit.haproxy import CONFIG, DIRECTORY

PROGRAM = "haproxy"
START_SECONDS = 20.0
POLL_SECONDS = 0.01

log = logging.getLogger(__name__)

_LINE = re.compile(r"\[(?P<level>[A-Z]+)\]\s+\((?P<pid>\d+)\) : (?P<text>.*)")
# HAProxy warns about what we asked for: a reload, the exit of a former worker.
_LEVELS = {"ALERT": logging.ERROR, "WARNING": logging.INFO}


class Haproxy(Child):
    """A running master."""

    name = "HAProxy"

    def __init__(self, process: Process, lifeline: Lifeline, master: AdminSocket) -> None:
        self._master = master
        super().__init__(process, lifeline)

    async def serves(self, admin: AdminSocket) -> None:
        """Return when the worker with this admin socket serves; raise ChildExited if it does not.

        The master executes itself again after it has started a worker, and signals until then are lost. It answers
        afterwards.
        """
        self._last_error.clear()
        deadline = time.monotonic() + START_SECONDS
        while self.running:
            with contextlib.suppress(OSError):
                if await admin.ask("show version", seconds=START_SECONDS) and await self._master.ask("show proc;quit"):
                    return
            if time.monotonic() > deadline:
                raise errors.ChildExited(
                    f"HAProxy does not serve: {' '.join(self._last_error) or 'it gives no reason'}"
                )
            await asyncio.sleep(POLL_SECONDS)
        raise errors.ChildExited(await self.exited())

    async def reload(self) -> None:
        """Start a new worker that reads everything again; the present one finishes its connections.

        By the master's socket and not by a signal: a signal that arrives while the master re-executes is lost.
        """
        await self._master.ask("reload")

    def finish(self) -> None:
        """Take no new connections; exit when the last one has closed."""
        self.is_stopping = True
        if self.running:
            self._process.send_signal(signal.SIGUSR1)

    def _on_line(self, line: str) -> None:
        match = _LINE.fullmatch(line.strip())
        level = _LEVELS.get(match["level"], logging.DEBUG) if match else logging.DEBUG
        text = match["text"] if match else line
        if level == logging.ERROR:
            self._last_error.append(text)
        level = logging.DEBUG if self.is_stopping else level
        log.log(level, "%s", text, extra={"component": "haproxy", "pid": self.pid})


async def launch(work_dir: Path, admin: AdminSocket, master: str) -> Haproxy:
    """Start HAProxy and return when it serves; raise ChildExited if it does not."""
    await stop_leftover("HAProxy", work_dir / DIRECTORY / PID_FILE, str(work_dir / DIRECTORY / CONFIG))
    arguments = ["-W", "-S", f"unix@{DIRECTORY}/{master},mode,600", "-p", str(work_dir / DIRECTORY / PID_FILE)]
    process = await _start(work_dir, *arguments, stdout=PIPE, stderr=STDOUT)
    haproxy = Haproxy(process, await lifeline_to(process), AdminSocket(work_dir / DIRECTORY / master))
    try:
        await haproxy.serves(admin)
    except BaseException:
        await haproxy.stop()
        raise
    return haproxy


async def check(work_dir: Path) -> None:
    """Raise TlsRejected if HAProxy rejects the configuration on disk, ChildExited if the check was killed."""
    process = await _start(work_dir, "-c", stdout=DEVNULL, stderr=PIPE)
    try:
        _, output = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if (how := killed(process)) is not None:
        raise errors.ChildExited(f"haproxy -c, which checks the configuration, {how}")
    if process.returncode != 0:
        lines = (_LINE.fullmatch(line.strip()) for line in output.decode(errors="replace").splitlines())
        words = "; ".join(line["text"] for line in lines if line and line["level"] == "ALERT")
        raise errors.TlsRejected(f"HAProxy rejects its configuration: {words or 'it gives no reason'}")


async def _start(work_dir: Path, *options: str, stdout: int, stderr: int) -> Process:
    command = [PROGRAM, *options, "-f", str(work_dir / DIRECTORY / CONFIG)]
    try:
        return await asyncio.create_subprocess_exec(
            *command,
            cwd=work_dir,
            stdin=DEVNULL,
            stdout=stdout,
            stderr=stderr,
            limit=LINE_LIMIT,
            start_new_session=True,
        )
    except FileNotFoundError:
        raise errors.ChildExited("HAProxy, which terminates TLS, is not installed or not on PATH") from None
