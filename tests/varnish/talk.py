"""Talk to a gateway as a client, over HTTP/1.1 or HTTP/2, with any bytes.

In:   a loopback port and requests.
Out:  Answer. A connection that closes without one gives an Answer with the status 0; one
      that stays silent raises TimeoutError.
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence

import h2.config
import h2.connection
import h2.events
from msgspec import Struct

SECONDS = 8.0


class Answer(Struct):
    """Status, headers with names in lower case, and the body."""

    status: int = 0
    headers: list[tuple[str, str]] = []
    body: bytes = b""

    def values(self, name: str) -> list[str]:
        return [value for header, value in self.headers if header == name.lower()]


class Request(Struct, frozen=True, kw_only=True):
    """Text is latin-1, so every byte has its character."""

    method: str
    target: str
    host: str
    headers: tuple[tuple[str, str], ...] = ()
    body: str = ""

    def as_http1(self) -> bytes:
        lines = [f"{self.method} {self.target} HTTP/1.1", f"Host: {self.host}", "Connection: close"]
        lines += [f"{name}:{value}" for name, value in self.headers]
        if self.body:
            lines.append(f"Content-Length: {len(self.body)}")
        return ("\r\n".join(lines) + "\r\n\r\n" + self.body).encode("latin-1")


async def over_http1(port: int, raw: bytes) -> Answer:
    """Send raw, whose last request asks for the connection to be closed; return the last answer."""
    async with asyncio.timeout(SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        received = bytearray()
        try:
            # varnishd may close before it has read everything: what it said then still counts.
            with contextlib.suppress(ConnectionError):
                writer.write(raw)
                while piece := await reader.read(65536):
                    received += piece
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
    return _parse(bytes(received))


def _parse(received: bytes) -> Answer:
    """Return the last answer of the connection."""
    answer = Answer()
    while received:
        head, blank, rest = received.partition(b"\r\n\r\n")
        if not blank:
            return Answer()
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        answer = Answer(int(first.split(" ")[1]), headers)
        answer.body, received = _split_body(answer, rest)
    return answer


def _split_body(answer: Answer, rest: bytes) -> tuple[bytes, bytes]:
    """Return the body and what comes after it."""
    if answer.values("transfer-encoding") != ["chunked"]:
        length = int(answer.values("content-length")[0]) if answer.values("content-length") else len(rest)
        return rest[:length], rest[length:]
    body, size = b"", -1
    while size and rest:
        line, _, rest = rest.partition(b"\r\n")
        size = int(line, 16)
        body, rest = body + rest[:size], rest[size + 2 :]
    return body, rest


async def over_http2(port: int, requests: Sequence[Request]) -> list[Answer]:
    """Send requests at once over one connection, with prior knowledge, and return their answers in order."""
    config = h2.config.H2Configuration(header_encoding="latin-1", validate_outbound_headers=False)
    connection = h2.connection.H2Connection(config)
    answers = {1 + 2 * number: Answer(headers=[]) for number in range(len(requests))}
    async with asyncio.timeout(SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            connection.initiate_connection()
            for stream, request in zip(answers, requests, strict=True):
                _send(connection, stream, request)
            await _receive(connection, answers, reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
    return list(answers.values())


def _send(connection: h2.connection.H2Connection, stream: int, request: Request) -> None:
    pseudo = [
        (":method", request.method),
        (":scheme", "http"),
        (":path", request.target),
        (":authority", request.host),
    ]
    headers = [(name.lower(), value.strip()) for name, value in request.headers]
    if request.body:
        headers.append(("content-length", str(len(request.body))))
    connection.send_headers(stream, pseudo + headers, end_stream=not request.body)
    if request.body:
        connection.send_data(stream, request.body.encode("latin-1"), end_stream=True)


async def _receive(
    connection: h2.connection.H2Connection,
    answers: Mapping[int, Answer],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Fill answers in until every stream has ended, or the connection has."""
    left = set(answers)
    while left:
        writer.write(connection.data_to_send())
        received = await reader.read(65536)
        if not received:
            return
        for event in connection.receive_data(received):
            if isinstance(event, h2.events.ResponseReceived):
                answer = answers[event.stream_id]
                answer.headers = [(name, value) for name, value in event.headers if not name.startswith(":")]
                answer.status = int(dict(event.headers)[":status"])
            elif isinstance(event, h2.events.DataReceived):
                answers[event.stream_id].body += event.data
                connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamEnded | h2.events.StreamReset):
                left.discard(event.stream_id)
