"""Signals that a program handles."""

import asyncio
import os
import signal

import pytest

from varnish_gateway.runtime import signals
from varnish_gateway.runtime.signals import STOPPING, on_hangup, on_stop, stop_signal


@pytest.fixture(autouse=True)
async def _handlers_are_removed():
    yield
    for number in (*STOPPING, signal.SIGHUP):
        asyncio.get_running_loop().remove_signal_handler(number)


async def calls_of(number: signal.Signals, called: "asyncio.Queue[str]") -> str:
    os.kill(os.getpid(), number)
    return await asyncio.wait_for(called.get(), 5)


@pytest.mark.parametrize("number", STOPPING)
async def test_every_signal_that_would_kill_stops(number):
    called: asyncio.Queue[str] = asyncio.Queue()
    on_stop(lambda: called.put_nowait("stop"))
    assert await calls_of(number, called) == "stop"


async def test_program_without_files_to_read_again_stops_on_hangup():
    stop = stop_signal()
    os.kill(os.getpid(), signal.SIGHUP)
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(stop, 5)


@pytest.mark.parametrize(
    ("terminal", "expected"),
    [((False, False), "reread"), ((True, True), "reread"), ((True, False), "stop")],
    ids=["without a terminal", "terminal stays", "terminal is gone"],
)
async def test_hangup_reads_again_unless_the_terminal_is_gone(monkeypatch, terminal, expected):
    states = iter(terminal)
    monkeypatch.setattr(signals, "_has_terminal", lambda: next(states))
    called: asyncio.Queue[str] = asyncio.Queue()
    on_hangup(lambda: called.put_nowait("reread"), lambda: called.put_nowait("stop"))
    assert await calls_of(signal.SIGHUP, called) == expected
