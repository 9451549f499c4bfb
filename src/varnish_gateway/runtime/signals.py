"""The end of a program, as a signal asks for it."""

import asyncio
import signal


def stop_signal() -> "asyncio.Future[None]":
    """Return a future that the first SIGTERM or SIGINT fulfils."""
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[None] = loop.create_future()

    def told() -> None:
        if not stop.done():
            stop.set_result(None)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told)
    return stop
