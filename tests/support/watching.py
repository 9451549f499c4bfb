"""What tests of the watcher do to files, and what they wait for."""

import asyncio
from pathlib import Path

from varnish_gateway.standalone.files.watcher import Watcher

TIMEOUT = 5.0


async def changed(watcher: Watcher, *expected: Path) -> None:
    """Wait until exactly these files were named, in one set or in several."""
    missing = {str(path) for path in expected}
    async with asyncio.timeout(TIMEOUT):
        while missing:
            found = await watcher.changed()
            assert found <= {str(path) for path in expected}
            missing -= found


async def is_quiet(watcher: Watcher, probe: Path) -> None:
    """Nothing but the probe was noticed."""
    probe.write_text("probe: 1\n")
    await changed(watcher, probe)


def write(path: Path, text: str) -> None:
    """Write a file in a directory that may be new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
