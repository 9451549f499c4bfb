"""Measure outages: after varnishd's worker or varnishd dies, and when the port of a listener changes.

A client sends requests to ``vgw run`` without a pause, from just before the event to the next response.
"""

import contextlib
import http.client
import os
import signal
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import lab
from fleet import GATEWAY, Fleet
from lab import free_port

from varnish_gateway.dataplane.tls.budget import AT_ONCE

ROUTES = 10
WORKER, MANAGER = "cache-main", "varnishd"
"""The kernel's names of their main threads."""
TIMEOUT_SECONDS = 60


def measure(times: int) -> dict[str, object]:
    """Return the median and the longest outage for each cause, in seconds."""
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(lab.open_directory())
        fleet = Fleet(directory, ROUTES, {"blue": stack.enter_context(lab.origin(directory / "blue", body="blue"))})
        causes: dict[str, Callable[[], None]] = {
            "a worker's death": lambda: _kill(fleet, WORKER),
            "varnishd's death": lambda: _kill(fleet, MANAGER),
            "another port": lambda: _move(fleet),
        }
        taken = {what: list(_outages(fleet, cause, times)) for what, cause in causes.items()}
    return {
        f"{which} s of {what}": round(choose(seconds), 2)
        for what, seconds in taken.items()
        for which, choose in (("median", statistics.median), ("longest", max))
    }


def _outages(fleet: Fleet, cause: Callable[[], None], times: int) -> Iterator[float]:
    """Yield outages, at most so many of one gateway that it delays no change of its ports."""
    for first in range(0, times, AT_ONCE - 1):
        with fleet.running():
            for _ in range(first, min(first + AT_ONCE - 1, times)):
                yield _outage(fleet, cause)


def _outage(fleet: Fleet, cause: Callable[[], None]) -> float:
    """Return the seconds from the cause of an outage to the first response after it."""
    started = time.monotonic()
    cause()
    while time.monotonic() < started + TIMEOUT_SECONDS:
        with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(fleet.connect()) as connection:
            if fleet.ask(connection, 0) == "blue":
                return time.monotonic() - started
    raise RuntimeError(f"the gateway never answered again: {(fleet.staging / 'log').read_text()[-2000:]}")


def _kill(fleet: Fleet, name: str) -> None:
    """Kill a process and wait until it and its children are gone: a worker outlives varnishd for a moment."""
    assert fleet.process is not None
    victim = next(pid for pid in _descendants(fleet.process.pid) if _name(pid) == name)
    dying = [victim, *_descendants(victim)]
    os.kill(victim, signal.SIGKILL)
    while any(map(_name, dying)):
        time.sleep(0.001)


def _move(fleet: Fleet) -> None:
    """Give the listener another port; the client uses it from now on."""
    fleet.port = free_port()
    staged = fleet.staging / "gateway.yaml"
    staged.write_text(GATEWAY.format(port=fleet.port))
    staged.rename(fleet.directory / staged.name)


def _descendants(pid: int) -> Iterator[int]:
    for child in map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
        yield child
        yield from _descendants(child)


def _name(pid: int) -> str:
    """Return the kernel's name of a process, "" if it is a zombie or gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    name, _, rest = text.partition("(")[2].rpartition(")")
    return "" if rest.split()[0] == "Z" else name
