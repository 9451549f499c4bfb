"""Send requests to ghost over a socket of varnishd on loopback.

In:   a port, a path, and for a POST its body.
Out:  status, headers and body, or ConnectionError.
By hand rather than by a client library: a reload has a few milliseconds, and a connection of
its own never meets a worker that is gone.
"""

import asyncio

Response = tuple[int, dict[str, str], bytes]
"""Status, headers in lower case and body."""


async def get(port: int, path: str, seconds: float) -> Response:
    """GET from a loopback socket of varnishd; raise ConnectionError where there is no response."""
    return await _ask(port, f"GET {path}", seconds)


async def post(port: int, path: str, seconds: float, content: bytes = b"") -> Response:
    """POST to a loopback socket of varnishd; raise ConnectionError where there is no response."""
    return await _ask(port, f"POST {path}", seconds, f"Content-Length: {len(content)}\r\n", content)


async def _ask(port: int, request: str, seconds: float, headers: str = "", content: bytes = b"") -> Response:
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                head = f"{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n"
                writer.write(head.encode() + content)
                answer = await reader.read()
            finally:
                writer.close()
    except TimeoutError:
        raise ConnectionError(f"no answer on port {port} within {seconds:g} s") from None
    return _parse(answer, port)


def _parse(answer: bytes, port: int) -> Response:
    head, blank, body = answer.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ", 2)
    if not blank or len(words) < 2 or not words[1].isdigit():
        raise ConnectionError(f"port {port} closed the connection without an answer")
    pairs = (line.partition(":") for line in lines[1:])
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    if headers.get("transfer-encoding") == "chunked":
        body = _unchunk(body)
    return int(words[1]), headers, body


def _unchunk(body: bytes) -> bytes:
    parts: list[bytes] = []
    while True:
        size_line, _, rest = body.partition(b"\r\n")
        size = int(size_line.split(b";")[0] or b"0", 16)
        if size == 0:
            return b"".join(parts)
        parts.append(rest[:size])
        body = rest[size + 2 :]
