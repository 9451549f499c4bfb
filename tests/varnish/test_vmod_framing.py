"""What says where a request ends, and whom it comes from, is never left out."""

import socket
from collections.abc import Sequence

import h2.config
import h2.connection
import h2.events
import pytest

from support.http.scripted_origin import ScriptedOrigin, answer
from support.varnish.ghost import Config, GhostHarness, backend, route, to
from varnish_gateway.ir import wire

FIVE_MORE = wire.Filters(
    request=wire.HeaderModifier(add=tuple(wire.Header(name=f"x-more-{n}", value="v") for n in range(5)))
)


def send(ghost: GhostHarness, headers: Sequence[str]) -> bytes:
    """Send a chunked POST, keep the connection, and return the status."""
    lines = ["POST / HTTP/1.1", "Transfer-Encoding: chunked", *headers]
    with socket.create_connection(("127.0.0.1", ghost.ports["http-80"]), timeout=20) as connection:
        connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n6\r\nGET / \r\n0\r\n\r\n")
        return connection.recv(65536)[9:12]


def send_http2(ghost: GhostHarness, headers: Sequence[str]) -> bytes:
    """Send a POST without a length, and return the status."""
    talk = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="latin-1"))
    talk.initiate_connection()
    pseudo = [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "a")]
    lines = [tuple(line.lower().split(": ")) for line in headers if not line.startswith("Host")]
    talk.send_headers(1, pseudo + lines)
    talk.send_data(1, b"GET / ", end_stream=True)
    with socket.create_connection(("127.0.0.1", ghost.ports["http-80"]), timeout=20) as connection:
        while True:
            connection.sendall(talk.data_to_send())
            for event in talk.receive_data(connection.recv(65536)):
                if isinstance(event, h2.events.ResponseReceived):
                    return dict(event.headers)[":status"].encode()
                if isinstance(event, h2.events.StreamReset | h2.events.ConnectionTerminated):
                    return b"400"


@pytest.mark.parametrize("sent", [send, send_http2])
@pytest.mark.parametrize("rule", [{}, {"filters": FIVE_MORE}], ids=["plain", "with more"])
@pytest.mark.parametrize("reserved", [0, 6])
def test_however_many_headers_the_body_has_its_frame(serve, sent, rule, reserved):
    """The client fills the table of 64 lines; some of them are taken out again."""
    with ScriptedOrigin(answer()) as origin:
        ghost = serve(origin, **rule)
        statuses = []
        for count in range(40, 66):
            names = [f"X-Gateway-{n}" for n in range(reserved)] + [f"X-{n}" for n in range(count - reserved)]
            statuses.append(sent(ghost, ["Host: a", *(f"{name}: v" for name in names)]))
        assert statuses[0] == b"200"
        assert set(statuses) <= {b"200", b"400", b"500", b"503"}
        assert statuses == sorted(statuses, key=lambda status: status != b"200")
        assert len(origin.requests) == statuses.count(b"200")
        for request in origin.requests:
            head, _, body = request.partition(b"\r\n\r\n")
            assert head.startswith(b"POST / ")
            assert b"\r\nTransfer-Encoding: chunked" in head
            assert b"\r\nX-Forwarded-For: 127.0.0.1" in head
            assert b"GET / " in body


def test_however_full_the_workspace_the_body_has_its_frame():
    """A head of any length, in a workspace that holds few of them."""
    with ScriptedOrigin(answer()) as origin, GhostHarness(Config(), parameters={"workspace_backend": "24k"}) as ghost:
        ghost.reload(Config([route("r", to(backend("pool")))], {"pool": [origin.endpoint]}))
        statuses = [send(ghost, ["Host: a", f"X: {'v' * length}"]) for length in range(0, 8000, 40)]
        assert set(statuses) == {b"200", b"503"}
        assert all(b"\r\nTransfer-Encoding: chunked" in request for request in origin.requests)
