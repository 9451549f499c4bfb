"""A child process: its output, its exit.

In:   a process that was started with a pipe for its output, in a session of its own.
Out:  every line that it writes, and how it exited. ``stop`` leaves no process behind, and neither
      does our own death; a process that a killed chaperone left behind is terminated first.
"""

import asyncio
import contextlib
import logging
import os
import signal
import time
from abc import ABC, abstractmethod
from asyncio.subprocess import Process
from pathlib import Path
from typing import ClassVar

from varnish_gateway.dataplane.process.lifeline import Lifeline

STOP_SECONDS = 5.0
POLL_SECONDS = 0.01
LINE_LIMIT = 1 << 20  # a panic is one long message

log = logging.getLogger(__name__)


class Child(ABC):
    """A running program."""

    name: ClassVar[str]

    def __init__(self, process: Process, lifeline: Lifeline) -> None:
        self._process = process
        self._lifeline = lifeline
        self._last_error: list[str] = []  # in its own words
        self.is_stopping = False  # by us
        self._output = asyncio.create_task(self._read_output())

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.returncode is None

    async def exited(self) -> str:
        """Wait for the process to exit; return how it exited, with its own words."""
        status = await self._process.wait()
        await self._lifeline.release()
        await asyncio.shield(self._output)
        if (how := killed(self._process)) is not None:
            return f"{self.name} {how}"
        why = f": {' '.join(self._last_error) or 'it gave no reason'}" if status > 0 else ""
        return f"{self.name} exited with status {status}{why}"

    async def stop(self) -> None:
        """Terminate the process, which terminates its own children; kill all of them if that takes too long."""
        self.is_stopping = True
        if self.running:
            self._process.terminate()
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    await self._process.wait()
            except TimeoutError:
                _kill_session(self.pid)
        await self._process.wait()
        await self._lifeline.release()
        await asyncio.shield(self._output)

    async def _read_output(self) -> None:
        stream = self._process.stdout
        assert stream is not None  # noqa: S101 - asked for with PIPE
        async for raw in stream:
            if line := raw.decode(errors="replace").rstrip():
                self._on_line(line)

    @abstractmethod
    def _on_line(self, line: str) -> None:
        """Handle a line of its output."""


def killed(process: Process) -> str | None:
    """Return which signal killed a process, None if it exited by itself."""
    status = process.returncode
    return f"was killed by signal {signal.Signals(-status).name}" if status is not None and status < 0 else None


async def lifeline_to(process: Process) -> Lifeline:
    """Return a lifeline; kill the process if there can't be one."""
    try:
        return await Lifeline.to(process.pid)
    except BaseException:
        if process.returncode is None:  # else kill() raises ProcessLookupError, which would replace a cancellation
            process.kill()  # it has started no other yet
        raise


async def stop_leftover(name: str, pid_file: Path, argument: str) -> None:
    """Terminate the process of the pid file if it has this argument: a killed chaperone left it behind."""
    pid = _leftover(pid_file, argument)
    if pid is None:
        return
    log.warning("terminating a %s that was left behind", name, extra={"pid": pid})
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)  # it stops its worker first, which frees the ports
    deadline = time.monotonic() + STOP_SECONDS
    while _leftover(pid_file, argument) == pid:
        if time.monotonic() > deadline:
            _kill_session(pid)
        await asyncio.sleep(POLL_SECONDS)


def _kill_session(pid: int) -> None:
    """Kill all processes of a session: a worker that survives would hold the ports that the next one needs."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _leftover(pid_file: Path, argument: str) -> int | None:
    try:
        pid = int(pid_file.read_text())
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return None
    return pid if argument.encode() in command else None
