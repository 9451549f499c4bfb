"""The first process of the node's namespaces: starts programs, starts them again when they end, reaps orphans.

In:   programs, and a lifeline: a pipe whose other end its owner keeps open while the node is needed.
Out:  when the lifeline is cut, or SIGTERM comes, ``supervise`` returns; the kernel then ends whatever
      still runs in the namespaces, because their first process is gone.
"""

import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from cluster.node.programs import Program

PAUSE = 1.0
"""Before a program that ended is started again."""


class Supervisor:
    def __init__(self, logs: Path, environment: Mapping[str, str], lifeline: int | None = None) -> None:
        self._logs = logs
        self._environment = environment
        self._lifeline = lifeline
        self._running: dict[int, Program] = {}
        self._due: list[tuple[float, Program]] = []
        self._wanted = True
        self._signals, wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wakeup)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self._stop())

    def start(self, programs: Iterable[Program]) -> None:
        for program in programs:
            self._start(program)

    def wait_for(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Keep everything running until the condition holds; False if it does not in time."""
        deadline = time.monotonic() + seconds
        while self._wanted and time.monotonic() < deadline:
            if condition():
                return True
            self._step(0.1)
        return False

    def supervise(self) -> None:
        """Keep everything running until SIGTERM or the end of the lifeline."""
        while self._wanted:
            self._step(None)

    def _stop(self) -> None:
        self._wanted = False

    def _step(self, longest: float | None) -> None:
        """Wait for something to happen, and act on it."""
        watched = [self._signals, *([] if self._lifeline is None else [self._lifeline])]
        ready, _, _ = select.select(watched, [], [], self._patience(longest))
        if self._lifeline in ready:
            self._stop()
        if self._signals in ready:
            os.read(self._signals, 4096)
        self._reap()
        self._start_due()

    def _patience(self, longest: float | None) -> float | None:
        waits = [max(0.0, when - time.monotonic()) for when, _ in self._due]
        return min([*waits, *([] if longest is None else [longest])], default=None)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if program := self._running.pop(pid, None):  # others are orphans that fell to us
                say(f"{program.name} ended with {os.waitstatus_to_exitcode(status)}; starting it again")
                self._due.append((time.monotonic() + PAUSE, program))

    def _start_due(self) -> None:
        now = time.monotonic()
        due = [program for when, program in self._due if when <= now]
        self._due = [(when, program) for when, program in self._due if when > now]
        self.start(due)

    def _start(self, program: Program) -> None:
        log = self._logs / f"{program.name}.log"
        pid = os.posix_spawn(
            program.command[0],
            program.command,
            self._environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
        self._running[pid] = program
        say(f"{program.name} runs as {pid}")


def say(line: str) -> None:
    print(time.strftime("%T"), line, flush=True)
