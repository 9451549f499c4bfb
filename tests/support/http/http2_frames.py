"""Frames of HTTP/2 (RFC 9113), for what the library doesn't show: it reads none after a GOAWAY."""

import asyncio
from typing import NamedTuple

PING, GOAWAY = 6, 7
ACK, END_STREAM = 1, 1


class Frame(NamedTuple):
    kind: int
    flags: int
    stream: int
    payload: bytes

    @property
    def error(self) -> int:
        """The code of a GOAWAY."""
        return int.from_bytes(self.payload[4:8])


async def read_frame(reader: asyncio.StreamReader) -> Frame:
    """Return the next frame; IncompleteReadError where there is none."""
    head = await reader.readexactly(9)
    payload = await reader.readexactly(int.from_bytes(head[:3]))
    return Frame(head[3], head[4], int.from_bytes(head[5:9]), payload)
