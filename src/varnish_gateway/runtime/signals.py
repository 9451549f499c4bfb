"""Stop a program on SIGTERM or SIGINT."""

import asyncio
import signal


def stop_signal() -> "asyncio.Future[None]":
    """Return a future that completes with the first SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[None] = loop.create_future()

    def on_signal() -> None:
        if not stop.done():
            stop.set_result(None)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    return stop
