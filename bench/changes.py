"""Measure the time from a file's rename to the first changed response, with 10 and with 5,000 routes.

Both gateways run at the same time and the measurement alternates between them. A client sends
requests without a pause. The measurement also records the start-up time with 5,000 files.
"""

import contextlib
import statistics

import lab
from fleet import Fleet

FEW, MANY = 10, 5_000


def measure(changes: int) -> dict[str, object]:
    """Return medians in milliseconds, their ratio, and the start-up time."""
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(lab.open_directory())
        origins = {name: stack.enter_context(lab.origin(directory / name, body=name)) for name in ("blue", "green")}
        few, many = (Fleet(directory / str(count), count, origins) for count in (FEW, MANY))
        startup = stack.enter_context(many.running())
        stack.enter_context(few.running())
        taken: dict[int, list[float]] = {FEW: [], MANY: []}
        for turn in range(changes):
            service = "blue" if (turn // FEW) % 2 else "green"
            taken[FEW].append(few.switch(turn % FEW, service))
            taken[MANY].append(many.switch((turn * 487) % MANY, "green"))
    medians = {count: statistics.median(seconds) * 1000 for count, seconds in taken.items()}
    return {
        "milliseconds among 10": [round(seconds * 1000, 2) for seconds in taken[FEW]],
        "milliseconds among 5,000": [round(seconds * 1000, 2) for seconds in taken[MANY]],
        "median ms among 10": round(medians[FEW], 2),
        "median ms among 5,000": round(medians[MANY], 2),
        "5,000 / 10": round(medians[MANY] / medians[FEW], 2),
        "start on 5,000 files, s": round(startup, 2),
    }
