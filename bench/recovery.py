"""How long nobody is served: after a death of varnishd's worker or of varnishd, and when a listener gets another port.

A client asks ``vgw run`` without a pause, from just before until it has its answer again.
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

ROUTES = 10
WORKER, MANAGER = "cache-main", "varnishd"
"""What the kernel calls their first threads."""
PATIENCE_SECONDS = 60


def measure(times: int) -> dict[str, object]:
    """Return the median and the longest time of each, in seconds."""
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(lab.open_directory())
        fleet = Fleet(directory, ROUTES, {"blue": stack.enter_context(lab.origin(directory / "blue", body="blue"))})
        stack.enter_context(fleet.running())
        causes: dict[str, Callable[[], None]] = {
            "a worker's death": lambda: _kill(fleet, WORKER),
            "varnishd's death": lambda: _kill(fleet, MANAGER),
            "another port": lambda: _move(fleet),
        }
        taken = {what: [_outage(fleet, cause) for _ in range(times)] for what, cause in causes.items()}
    return {
        f"{which} s of {what}": round(choose(seconds), 2)
        for what, seconds in taken.items()
        for which, choose in (("median", statistics.median), ("longest", max))
    }


def _outage(fleet: Fleet, cause: Callable[[], None]) -> float:
    """Return the seconds from what causes an outage until the first answer after it."""
    started = time.monotonic()
    cause()
    while time.monotonic() < started + PATIENCE_SECONDS:
        with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(fleet.connect()) as connection:
            if fleet.ask(connection, 0) == "blue":
                return time.monotonic() - started
    raise RuntimeError(f"it never answered again: {(fleet.staging / 'log').read_text()[-2000:]}")


def _kill(fleet: Fleet, name: str) -> None:
    """Kill a process and wait until it is gone, with its children: a worker answers for a while without varnishd."""
    assert fleet.process is not None
    victim = next(pid for pid in _descendants(fleet.process.pid) if _name(pid) == name)
    going = [victim, *_descendants(victim)]
    os.kill(victim, signal.SIGKILL)
    while any(map(_name, going)):
        time.sleep(0.001)


def _move(fleet: Fleet) -> None:
    """Give the listener another port; from then on the client asks there."""
    fleet.port = lab.free_port()
    staged = fleet.staging / "gateway.yaml"
    staged.write_text(GATEWAY.format(port=fleet.port))
    staged.rename(fleet.directory / staged.name)


def _descendants(pid: int) -> Iterator[int]:
    for child in map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
        yield child
        yield from _descendants(child)


def _name(pid: int) -> str:
    """Return what the kernel calls a process, "" once it is gone or dead."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    name, _, rest = text.partition("(")[2].rpartition(")")
    return "" if rest.split()[0] == "Z" else name
