"""A process tied to us."""

import asyncio
import signal

import pytest

from varnish_gateway.dataplane.process.lifeline import Lifeline


@pytest.fixture
async def child():
    child = await asyncio.create_subprocess_exec("sleep", "60")
    yield child
    if child.returncode is None:
        child.kill()
    await child.wait()


async def test_process_ends_when_its_lifeline_closes(child):
    lifeline = await Lifeline.to(child.pid)
    lifeline._shell.stdin.close()  # as the kernel does when we die
    async with asyncio.timeout(10):
        assert await child.wait() == -signal.SIGTERM
    await lifeline.release()


async def test_released_lifeline_kills_no_process(child):
    lifeline = await Lifeline.to(child.pid)
    await lifeline.release()
    assert lifeline._shell.returncode is not None
    assert child.returncode is None
    await lifeline.release()  # twice is once
