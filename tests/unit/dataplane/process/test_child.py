"""Programs that we run, with shells in their place."""

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import PIPE, STDOUT

import pytest

from varnish_gateway.dataplane.process import child
from varnish_gateway.dataplane.process.child import Child, lifeline_to

SECONDS = 10


class Shell(Child):
    name = "a shell"

    def _on_line(self, line: str) -> None:
        self.output = line


async def run(script: str) -> Shell:
    """Run a script; return after its first output."""
    process = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", script, stdout=PIPE, stderr=STDOUT, start_new_session=True
    )
    shell = Shell(process, await lifeline_to(process))
    async with asyncio.timeout(SECONDS):
        while not hasattr(shell, "output"):
            await asyncio.sleep(0.001)
    return shell


async def test_kill_reaches_the_children_of_the_process(monkeypatch):
    """A worker that outlives its manager holds the ports that the next one needs."""
    monkeypatch.setattr(child, "STOP_SECONDS", 0.05)
    shell = await run("trap '' TERM; sh -c 'while :; do sleep 1; done' >/dev/null 2>&1 & echo $!; wait")
    worker = int(shell.output)
    os.kill(worker, 0)
    await asyncio.wait_for(shell.stop(), SECONDS)
    async with asyncio.timeout(SECONDS):
        with contextlib.suppress(ProcessLookupError):
            while True:
                os.kill(worker, 0)
                await asyncio.sleep(0.001)


async def test_cancelled_wait_for_exit_keeps_reading_output():
    shell = await run("sleep 60 & echo $!")
    waiting = asyncio.create_task(shell.exited())
    async with asyncio.timeout(SECONDS):
        while shell.running or shell._lifeline._shell.returncode is None:
            await asyncio.sleep(0.001)
    await asyncio.sleep(0.01)
    waiting.cancel()
    await asyncio.wait({waiting})
    os.kill(int(shell.output), signal.SIGKILL)  # it held the pipe
    await asyncio.wait_for(shell.stop(), SECONDS)
    assert await shell.exited() == "a shell exited with status 0"


async def test_cancellation_survives_a_process_that_has_exited_meanwhile(monkeypatch):
    """A ProcessLookupError in its place counts as a fault that is retried: SIGTERM would go unheard."""
    process = await asyncio.create_subprocess_exec("/bin/sh", "-c", "exit 1", stdout=PIPE)
    await process.communicate()

    async def cancelled(_pid: int) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(child.Lifeline, "to", cancelled)
    with pytest.raises(asyncio.CancelledError):
        await lifeline_to(process)
