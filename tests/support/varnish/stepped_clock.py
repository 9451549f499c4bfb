"""A clock that a test moves, for varnishd.

In:   a directory that varnishd's users may enter.
Out:  the environment for varnishd, and ``advance``.

The clock runs at the speed of the real one, ahead by what the test has added. stepped_clock.c replaces
the functions of the C library that read it; a step counts at once in all processes.
"""

import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")


class SteppedClock:
    def __init__(self, directory: Path) -> None:
        self._library = directory / "stepped_clock.so"
        self._file = directory / "stepped_clock"
        self._ahead = 0
        self._file.write_bytes(bytes(8))
        call = ["gcc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(self._library), str(SOURCE)]
        subprocess.run(call, check=True)

    @property
    def environment(self) -> Mapping[str, str]:
        return {"LD_PRELOAD": str(self._library), "STEPPED_CLOCK": str(self._file)}

    @property
    def now(self) -> int:
        """Milliseconds since 1970, as varnishd sees them."""
        return time.time_ns() // 1_000_000 + self._ahead

    def advance(self, milliseconds: int) -> None:
        self._ahead += milliseconds
        with self._file.open("r+b", buffering=0) as file:
            file.write((self._ahead * 1_000_000).to_bytes(8, "little"))
