"""Send requests to ghost over a socket of varnishd on loopback.

In:   a port and a path.
Out:  status, headers and body, or ConnectionError.
By hand rather than by a client library: a reload has a few milliseconds, and a connection of
its own never meets a worker that is gone.
"""

import asyncio


async def get(port: int, path: str, seconds: float) -> tuple[int, dict[str, str], bytes]:
    """GET from a loopback socket of varnishd; return status, headers in lower case and body.

    Raise ConnectionError where there is none.
    """
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
                answer = await reader.read()
            finally:
                writer.close()
    except TimeoutError:
        raise ConnectionError(f"no answer on port {port} within {seconds:g} s") from None
    return _parse(answer, port)


def _parse(answer: bytes, port: int) -> tuple[int, dict[str, str], bytes]:
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
