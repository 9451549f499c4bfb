"""Talk to a gateway as a client, over HTTP/1.1 or HTTP/2, with any bytes.

In:   a loopback port, or one that speaks TLS (``Secure``), and requests.
Out:  Answer. A connection that closes without one gives an Answer with the status 0; one
      that stays silent raises TimeoutError.

``Connection`` and ``Client`` keep theirs alive, with and without an event loop; where they
get no answer they raise OSError or EOFError, and http.client's own exceptions.
"""

import asyncio
import contextlib
import http.client
import json
import socket
import ssl
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

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
    complete: bool = True
    """Over HTTP/2: whether the response came to its end."""

    def values(self, name: str) -> list[str]:
        return [value for header, value in self.headers if header == name.lower()]

    def header(self, name: str) -> str | None:
        return next(iter(self.values(name)), None)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def origin(self) -> str | None:
        """The name of the origin that answered, if one did (origins.py)."""
        return self.header("echo-service")

    @property
    def answered_by(self) -> str | int:
        """The origin that answered well, or else the status."""
        return self.origin if self.origin is not None and self.status == 200 else self.status


class Secure(Struct, frozen=True):
    """A loopback port that speaks TLS, and the server name that is sent to it."""

    port: int
    context: ssl.SSLContext
    name: str | None = None


Port = int | Secure


async def connect(port: Port) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if isinstance(port, int):
        return await asyncio.open_connection("127.0.0.1", port)
    return await asyncio.open_connection("127.0.0.1", port.port, ssl=port.context, server_hostname=port.name or "")


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


async def ask(port: Port, host: str, target: str = "/") -> Answer:
    """Ask once; status 0 where nothing answers."""
    try:
        return await over_http1(port, Request(method="GET", target=target, host=host).as_http1())
    except (OSError, TimeoutError):
        return Answer()


async def over_http1(port: Port, raw: bytes) -> Answer:
    """Send raw, whose last request asks for the connection to be closed; return the last answer."""
    async with asyncio.timeout(SECONDS):
        reader, writer = await connect(port)
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
        answer = _parse_head(head)
        answer.body, received = _split_body(answer, rest)
    return answer


def _parse_head(head: bytes) -> Answer:
    first, *lines = head.decode("latin-1").rstrip().split("\r\n")
    headers = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    return Answer(int(first.split(" ")[1]), headers)


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


def proxied(server_name: str | None, *, client: str = "192.0.2.7", port: int = 443) -> bytes:
    """Return a header of the PROXY protocol (version 2) as a TLS terminator sends it."""
    addresses = socket.inet_aton(client) + socket.inet_aton("192.0.2.1") + struct.pack("!HH", 40000, port)
    name = (server_name or "").encode()
    authority = struct.pack("!BH", 2, len(name)) + name if server_name is not None else b""
    head = struct.pack("!BBH", 0x21, 0x11, len(addresses) + len(authority))
    return b"\r\n\r\n\0\r\nQUIT\n" + head + addresses + authority


async def over_http2(
    port: Port, requests: Sequence[Request], *, preface: bytes = b"", on_head: Callable[[], None] = lambda: None
) -> list[Answer]:
    """Send requests at once over one connection, with prior knowledge, and return their answers in order.

    ``preface`` goes before everything, such as a header of the PROXY protocol. ``on_head`` is called when the
    head of an answer has come.
    """
    config = h2.config.H2Configuration(header_encoding="latin-1", validate_outbound_headers=False)
    connection = h2.connection.H2Connection(config)
    answers = {1 + 2 * number: Answer(headers=[]) for number in range(len(requests))}
    async with asyncio.timeout(SECONDS):
        reader, writer = await connect(port)
        try:
            writer.write(preface)
            connection.initiate_connection()
            for stream, request in zip(answers, requests, strict=True):
                _send(connection, stream, request)
            await _receive(connection, answers, (reader, writer), on_head)
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
    streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    on_head: Callable[[], None],
) -> None:
    """Fill answers in until every stream has ended, or the connection has."""
    reader, writer = streams
    left = set(answers)
    while left:
        writer.write(connection.data_to_send())
        received = await reader.read(65536)
        if not received:
            break
        for event in connection.receive_data(received):
            if isinstance(event, h2.events.ResponseReceived):
                answer = answers[event.stream_id]
                answer.headers = [(name, value) for name, value in event.headers if not name.startswith(":")]
                answer.status = int(dict(event.headers)[":status"])
                on_head()
            elif isinstance(event, h2.events.DataReceived):
                answers[event.stream_id].body += event.data
                connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamEnded | h2.events.StreamReset):
                answers[event.stream_id].complete = isinstance(event, h2.events.StreamEnded)
                left.discard(event.stream_id)
    for stream in left:
        answers[stream].complete = False


class Connection:
    """One keep-alive connection, opened when it is needed."""

    def __init__(self, port: Port) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, host: str, target: str = "/", lines: str = "") -> Answer:
        """Send a GET; ``lines`` are further lines of its head."""
        if self._streams is None:
            self._streams = await connect(self._port)
        reader, writer = self._streams
        writer.write(f"GET {target} HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n".encode())
        answer = _parse_head(await reader.readuntil(b"\r\n\r\n"))
        answer.body = await reader.readexactly(int(answer.values("content-length")[0]))
        if answer.header("connection") == "close":
            await self.close()
        return answer

    async def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            with contextlib.suppress(OSError):
                await self._streams[1].wait_closed()
            self._streams = None

    def abandon(self) -> None:
        """Close without waiting for the other side."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None


class Client:
    """One keep-alive connection, for tests without an event loop."""

    def __init__(self, port: int, *, address: str | None = None) -> None:
        """``address`` is the client's own."""
        source = None if address is None else (address, 0)
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20, source_address=source)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def get(
        self,
        path: str = "/",
        *,
        host: str = "example.com",
        method: str = "GET",
        headers: Sequence[tuple[str, str | bytes]] = (),
        body: bytes | None = None,
    ) -> Answer:
        connection = self._connection
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        connection.putheader("Host", host)
        for name, value in headers:
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        response = connection.getresponse()
        return Answer(
            response.status, [(name.lower(), value) for name, value in response.getheaders()], response.read()
        )
