"""``vgw run`` as a user runs it: a process of its own on a directory of files."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

SECONDS = 30.0


class VgwProcess:
    """A ``vgw run``, its log, and its end."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.log: list[dict[str, Any]] = []
        self._grown = asyncio.Condition()
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            try:
                record = json.loads(line)
            except ValueError:
                record = {"level": "none", "message": line.decode(errors="replace")}
            async with self._grown:
                self.log.append(record)
                self._grown.notify_all()

    async def wait_for_record(self, matches: Callable[[dict[str, Any]], bool], *, since: int = 0) -> dict[str, Any]:
        """Wait for the first record that matches, from ``since`` on, and return it."""
        try:
            async with asyncio.timeout(SECONDS), self._grown:
                await self._grown.wait_for(lambda: any(map(matches, self.log[since:])))
                return next(filter(matches, self.log[since:]))
        except TimeoutError:
            logged = "\n".join(record["message"] for record in self.log)
            raise AssertionError(f"the process did not log the expected record:\n{logged}") from None

    async def wait_for_message(self, text: str) -> None:
        """Wait for a record with this text."""
        await self.wait_for_record(lambda record: text in record["message"])

    async def wait_for_programmed(self, gateway: str = "", *, since: int = 0) -> None:
        """Wait until a Gateway is Programmed."""
        await self.wait_for_record(
            lambda record: record["message"].startswith(f"Gateway {gateway}") and "Programmed" in record["message"],
            since=since,
        )

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        if self.process.returncode is None:
            self.process.send_signal(number)
        async with asyncio.timeout(SECONDS):
            status = await self.process.wait()
            await self._reading
        return status


@contextlib.asynccontextmanager
async def vgw_run(
    *paths: Path, options: tuple[str, ...] = (), environment: Mapping[str, str] | None = None
) -> AsyncIterator[VgwProcess]:
    """Run ``vgw run`` on these paths; stop it with SIGTERM at the end."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "varnish_gateway", "run", "--log-format", "json", *options, *map(str, paths)),
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **(environment or {})},
        limit=1 << 20,
    )
    gateway = VgwProcess(process)
    try:
        yield gateway
    finally:
        await gateway.stop()
