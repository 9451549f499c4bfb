import pytest

from support.http.canned import answering
from varnish_gateway.dataplane.ghost.loopback import get, post


async def test_answer_is_parsed():
    async with answering(b"HTTP/1.1 500 No way\r\nX-Ghost-Error: a: b\r\n\r\nbody") as ghost:
        assert await get(ghost.port, "/", 2) == (500, {"x-ghost-error": "a: b"}, b"body")


@pytest.mark.parametrize("body", [b"", b'{"a": 1}'])
async def test_post_names_the_host_and_has_its_body(body):
    async with answering(b"HTTP/1.1 200 OK\r\n\r\n") as ghost:
        assert (await post(ghost.port, "/drain", 2, body))[0] == 200
        head, _, received = (await ghost.requests.get()).partition(b"\r\n\r\n")
    assert head.startswith(b"POST /drain HTTP/1.1\r\nHost: localhost\r\n")
    assert head.endswith(b"\r\nContent-Length: %d" % len(body))
    assert received == body


async def test_chunked_answer_is_joined():
    chunks = b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    async with answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks) as ghost:
        assert (await get(ghost.port, "/", 2))[2] == b"abcde"


async def test_missing_answer_is_a_connection_error():
    async with answering(b"") as ghost:
        with pytest.raises(ConnectionError, match="without an answer"):
            await get(ghost.port, "/", 2)
