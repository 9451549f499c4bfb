"""Terminate a process when we die, whatever kills us.

A shell waits on a pipe whose other end only we hold; when it closes, because we let go or
because we are gone, the shell terminates the process. The kernel's own signal on a parent's death
does not work here: the kernel drops it when varnishd changes its user.
"""

import asyncio
from asyncio.subprocess import DEVNULL, PIPE, Process

_SCRIPT = 'read -r _; kill -TERM "$1"'


class Lifeline:
    """Held for as long as the process should run."""

    def __init__(self, shell: Process) -> None:
        self._shell = shell

    @classmethod
    async def to(cls, pid: int) -> "Lifeline":
        """Tie a process to us."""
        # A session of its own: Ctrl-C in our terminal is not meant for it.
        shell = await asyncio.create_subprocess_exec(
            *("/bin/sh", "-c", _SCRIPT, "sh", str(pid)),
            stdin=PIPE,
            stdout=DEVNULL,
            stderr=DEVNULL,
            start_new_session=True,
        )
        return cls(shell)

    async def release(self) -> None:
        """Let go of a process that has ended."""
        if self._shell.returncode is None:
            self._shell.kill()
        await self._shell.wait()
