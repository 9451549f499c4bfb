"""What is sent to ghost, and what its answers mean."""

import json

import pytest

from support.http.canned import answering
from varnish_gateway import errors
from varnish_gateway.dataplane.ghost.invalidation import invalidate
from varnish_gateway.ir.invalidation import Invalidation, InvalidationTarget

ASKED = Invalidation(targets=(InvalidationTarget(host="a"), InvalidationTarget(everything=True)), routes=())


def response(status: str, body: bytes) -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(body), body)


async def test_counts_of_all_targets_are_returned():
    async with answering(response("200 OK", b'{"objects":[12,0]}')) as ghost:
        assert await invalidate(ghost.port, ASKED) == (12, 0)
        head, _, body = (await ghost.requests.get()).partition(b"\r\n\r\n")
    assert head.startswith(b"POST /.varnish-ghost/invalidate HTTP/1.1\r\nHost: localhost\r\n")
    assert json.loads(body) == {"mode": "hard", "targets": [{"host": "a"}, {"everything": True}], "routes": []}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"error":"targets[1].matching.pattern: unclosed"}', "targets[1].matching.pattern: unclosed"),
        (b"nonsense", "ghost names no reason; does the VCL call ghost.recv()?"),
    ],
)
async def test_rejection_is_a_bad_document_with_the_words_of_ghost(body, reason):
    async with answering(response("400 Bad Request", body)) as ghost:
        with pytest.raises(errors.BadDocument) as raised:
            await invalidate(ghost.port, ASKED)
    assert str(raised.value) == reason


@pytest.mark.parametrize(
    "answer",
    [
        response("503 Unavailable", b""),
        response("404 Not Found", b'{"objects":[1,2]}'),
        response("200 OK", b"<html>"),
        response("200 OK", b'{"objects":[1]}'),
        b"",
    ],
    ids=["503", "404", "another program", "too few counts", "nothing"],
)
async def test_anything_else_confirms_nothing(answer):
    async with answering(answer) as ghost:
        with pytest.raises(ConnectionError):
            await invalidate(ghost.port, ASKED)
