"""Signals: which ones stop a program, and which one makes it read its configuration again."""

import asyncio
import os
import signal
from collections.abc import Callable

STOPPING = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGQUIT,
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF),
    *(signal.SIGIO, signal.SIGPWR, signal.SIGXCPU),
)
"""Signals that would kill a process that doesn't handle them, and leave its files and private keys behind.

SIGHUP is apart. SIGKILL and the signals of a crash can't be handled.
"""


def on_stop(callback: Callable[[], None]) -> None:
    """Call back on every signal that stops the program."""
    for number in STOPPING:
        asyncio.get_running_loop().add_signal_handler(number, callback)


def on_hangup(reread: Callable[[], None], stop: Callable[[], None]) -> None:
    """Call ``reread`` on SIGHUP, or ``stop`` if the terminal that the program was started from is gone."""
    had_terminal = _has_terminal()

    def on_signal() -> None:
        is_hung_up = had_terminal and not _has_terminal()
        (stop if is_hung_up else reread)()

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, on_signal)


def stop_signal() -> "asyncio.Future[None]":
    """Return a future that completes with the first signal that stops the program."""
    stop: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_signal() -> None:
        if not stop.done():
            stop.set_result(None)

    on_stop(on_signal)
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, on_signal)
    return stop


def _has_terminal() -> bool:
    """Whether the process has a controlling terminal, which sends SIGHUP when it closes."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True
