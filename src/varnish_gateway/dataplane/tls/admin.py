"""HAProxy's admin socket.

In:   commands, one connection each.
Out:  what HAProxy answers, as text; ConnectionError where it does not.
"""

import asyncio
from pathlib import Path

from varnish_gateway import errors
from varnish_gateway.emit.haproxy import BUFFER_BYTES

ANSWER_SECONDS = 20.0
MOST_PAYLOAD = BUFFER_BYTES - 4096
"""A command with its payload has to fit into a buffer of HAProxy."""


class AdminSocket:
    """Sends each command over a connection of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def ask(self, command: str, payload: bytes | None = None, seconds: float = ANSWER_SECONDS) -> str:
        """Send a command; return its answer."""
        line = command.encode() + (b"\n" if payload is None else b" <<\n" + payload + b"\n")
        try:
            async with asyncio.timeout(seconds):
                reader, writer = await asyncio.open_unix_connection(self.path)
                try:
                    writer.write(line)
                    answer = await reader.read()
                finally:
                    writer.close()
        except TimeoutError:
            raise ConnectionError(
                f"HAProxy did not answer {command.split(maxsplit=1)[0]!r} within {seconds:g} s"
            ) from None
        return answer.decode(errors="replace").strip()

    async def do(self, command: str, done: str, payload: bytes | None = None) -> None:
        """Send a command that answers ``done``; raise TlsRejected with any other answer."""
        answer = await self.ask(command, payload)
        if done not in answer:
            raise errors.TlsRejected(f"HAProxy, {command}: {' '.join(answer.split()) or 'no answer'}")

    async def frontends(self) -> list[dict[str, str]]:
        """Return the rows of ``show stat`` that are about ports."""
        lines = (await self.ask("show stat -1 1 -1")).splitlines()
        names = lines[0].removeprefix("# ").split(",") if lines else []  # a stopping worker answers nothing
        return [dict(zip(names, row.split(","), strict=False)) for row in lines[1:] if row]
