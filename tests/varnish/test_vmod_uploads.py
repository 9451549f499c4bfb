"""Bodies of requests: within the limits of their rule, whichever side is slow, and never half a response."""

import contextlib
import hashlib
import socket
import threading
import time
from collections.abc import Iterable, Iterator

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, Event, ResponseReceived, StreamEnded, StreamReset

from support.http.scripted_origin import ScriptedOrigin, answer, late, trickle
from support.varnish.ghost import GhostHarness
from varnish_gateway.ir import wire

SOON = 5.0
"""What a busy machine may make of a few hundred milliseconds; well below every limit that is not to count."""
LONG = 15_000
PIECE = b"p" * 65536


def within(request: int | None = None, backend_request: int | None = None) -> wire.Timeouts:
    return wire.Timeouts(request=request, backend_request=backend_request)


LIMITS = [within(request=500), within(backend_request=500)]


def with_length(*pieces: bytes) -> list[bytes]:
    """Make the pieces of a POST whose body has a known length."""
    head = b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    return [head % sum(map(len, pieces)), *pieces]


def in_chunks(*pieces: bytes) -> list[bytes]:
    """Make the pieces of a POST whose body has an unknown length."""
    head = b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    return [head, *(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces), b"0\r\n\r\n"]


FORMS = [with_length, in_chunks]


def upload(ghost: GhostHarness, pieces: Iterable[bytes], *, every: float = 0.0) -> tuple[bytes, float]:
    """Send pieces with pauses between them; return everything that varnishd sends until it closes, and when."""
    stop = threading.Event()
    with socket.create_connection(("127.0.0.1", ghost.ports["http-80"]), timeout=20) as connection:

        def send() -> None:
            with contextlib.suppress(OSError):
                for piece in pieces:
                    connection.sendall(piece)
                    if stop.wait(every):
                        return

        sender = threading.Thread(target=send)
        began = time.monotonic()
        sender.start()
        received = b""
        with contextlib.suppress(ConnectionError):
            while piece := connection.recv(65536):
                received += piece
        seconds = time.monotonic() - began
        stop.set()
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        sender.join()
    return received, seconds


@contextlib.contextmanager
def deaf() -> Iterator[wire.Endpoint]:
    """Yield an endpoint to which connections are made, and which never reads."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield wire.Endpoint(address="127.0.0.1", port=server.getsockname()[1])


@contextlib.contextmanager
def sipping() -> Iterator[wire.Endpoint]:
    """Yield an endpoint that reads all the time, a little at a time."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        stop = threading.Event()

        def sip() -> None:
            connection, _ = server.accept()
            with connection:
                while not stop.wait(0.02) and connection.recv(4096):
                    pass

        thread = threading.Thread(target=sip)
        thread.start()
        try:
            yield wire.Endpoint(address="127.0.0.1", port=server.getsockname()[1])
        finally:
            stop.set()
            thread.join()


# -- slow clients ----------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("timeouts", LIMITS)
def test_upload_that_takes_too_long_is_a_504_in_time(serve, form, timeouts):
    with ScriptedOrigin(answer(200, b"x" * 100)) as origin:
        received, seconds = upload(serve(origin, timeouts=timeouts), form(*[b"x"] * 10), every=0.1)
    assert received.startswith(b"HTTP/1.1 504 ")
    assert 0.45 < seconds < 0.9  # the upload itself takes a second
    assert origin.requests == []


@pytest.mark.parametrize("form", FORMS)
def test_client_that_falls_silent_is_a_504_in_time(serve, form):
    with ScriptedOrigin(answer()) as origin:
        received, seconds = upload(serve(origin, timeouts=within(request=500)), form(b"x", b"x"), every=20.0)
    assert received.startswith(b"HTTP/1.1 504 ")
    assert 0.45 < seconds < 4  # varnishd itself waits for 5 seconds


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("timeouts", LIMITS)
def test_response_that_comes_too_late_after_an_upload_is_a_504(serve, form, timeouts):
    """The time that the upload took counts."""
    with ScriptedOrigin(late(0.4, answer(200, b"x" * 100))) as origin:
        received, _ = upload(serve(origin, timeouts=timeouts), form(b"x", b"x", b"x"), every=0.1)
    assert received.startswith(b"HTTP/1.1 504 ")
    assert len(origin.requests) == 1


@pytest.mark.parametrize("timeouts", LIMITS)
def test_upload_over_http2_that_takes_too_long_is_a_504_in_time(serve, timeouts):
    """A response, not a reset that says that the client may repeat its request."""
    with ScriptedOrigin(answer(200, b"x" * 100)) as origin:
        port = serve(origin, timeouts=timeouts).ports["http-80"]
        began = time.monotonic()
        events = list(upload_over_http2(port, [b"x"] * 10, every=0.1))
        assert 0.45 < time.monotonic() - began < 0.9  # the upload itself takes a second
    (response,) = [event for event in events if isinstance(event, ResponseReceived)]
    assert (b":status", b"504") in response.headers
    assert isinstance(events[-1], StreamEnded)
    assert origin.requests == []


def upload_over_http2(port: int, pieces: list[bytes], *, every: float, length: int | None = None) -> Iterator[Event]:
    """Send pieces with pauses between them until there is a response; yield what happens until its end."""
    stream = H2Connection(H2Configuration(client_side=True, header_encoding=None))
    stream.initiate_connection()
    head = {":method": "POST", ":scheme": "http", ":authority": "a", ":path": "/"}
    head |= {} if length is None else {"content-length": str(length)}
    stream.send_headers(1, list(head.items()))
    with socket.create_connection(("127.0.0.1", port)) as connection:
        left = list(pieces)
        while True:
            connection.sendall(stream.data_to_send())
            connection.settimeout(every if left else 20)
            try:
                events = stream.receive_data(connection.recv(65536))
            except TimeoutError:
                stream.send_data(1, left.pop(), end_stream=not left)
                continue
            yield from events
            if any(isinstance(event, StreamEnded | StreamReset | ConnectionTerminated) for event in events):
                return


def test_head_that_is_complete_too_late_is_a_504(serve):
    """Its body would have no time left: a 200 without its body."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"
    pieces = [head[at : at + 8] for at in range(0, len(head), 8)]
    with ScriptedOrigin(trickle([*pieces, b"done"], 0.2)) as origin:
        answered = serve(origin, timeouts=within(request=500)).get()
    assert answered.status == 504


def test_slow_upload_in_time_is_complete(serve):
    with ScriptedOrigin(answer(200, b"x" * 100)) as origin:
        received, _ = upload(serve(origin, timeouts=within(request=LONG)), with_length(*[b"x"] * 10), every=0.1)
    assert received.startswith(b"HTTP/1.1 200 ")
    assert received.endswith(b"x" * 100)


RETRY = wire.Retry(codes=(503,))
"""Has varnishd read a small body before the fetch, so that it can be sent again."""


def test_kept_body_that_takes_too_long_is_a_504_in_time(serve):
    with ScriptedOrigin(answer()) as origin:
        ghost = serve(origin, timeouts=within(request=500), retry=RETRY)
        received, seconds = upload(ghost, with_length(*[b"x"] * 40), every=0.1)
    assert received.startswith(b"HTTP/1.1 504 ")
    assert b"Connection: close\r\n" in received
    assert 0.45 < seconds < 3  # the upload itself takes four seconds
    assert origin.requests == []


def test_kept_body_over_http2_that_takes_too_long_is_a_504_in_time(serve):
    with ScriptedOrigin(answer()) as origin:
        port = serve(origin, timeouts=within(request=500), retry=RETRY).ports["http-80"]
        began = time.monotonic()
        events = list(upload_over_http2(port, [b"x"] * 40, every=0.1, length=40))
        assert 0.45 < time.monotonic() - began < 3
    (response,) = [event for event in events if isinstance(event, ResponseReceived)]
    assert (b":status", b"504") in response.headers
    assert origin.requests == []


@pytest.fixture
def impatient(ghost) -> Iterator[None]:
    """Have varnishd wait for half a second for a piece of a body, and for 3 seconds for the whole."""
    ghost.admin("param.set", "timeout_idle", "0.5")
    yield
    ghost.admin("param.reset", "timeout_idle")


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("every", "at_least"), [(0.25, 2.9), (20.0, 0.4)], ids=["slow", "silent"])
def test_kept_body_of_a_rule_without_limits_is_a_408_in_time(serve, every, at_least):
    with ScriptedOrigin(answer()) as origin:
        ghost = serve(origin, retry=RETRY)
        before = ghost.counters()["routes"]["default/r"]["status"]["4xx"]
        received, seconds = upload(ghost, with_length(*[b"x"] * 40), every=every)
    assert received.startswith(b"HTTP/1.1 408 ")
    assert at_least < seconds < 6  # the slow upload itself takes ten seconds
    assert origin.requests == []
    assert ghost.counters()["routes"]["default/r"]["status"]["4xx"] == before + 1


@pytest.mark.usefixtures("impatient")
def test_body_that_did_not_arrive_is_not_sent_after_vcl_changed_the_request(serve):
    vcl = 'sub vcl_recv { set req.url = "/other"; } sub vcl_synth { return (deliver); }'
    with ScriptedOrigin(answer()) as origin:
        ghost = serve(origin, retry=RETRY)
        ghost.load_vcl(vcl)
        received, _ = upload(ghost, with_length(b"x", b"x"), every=20.0)
        ghost.load_vcl()
    assert received.startswith(b"HTTP/1.1 408 ")
    assert origin.requests == []


@pytest.mark.usefixtures("impatient")
def test_kept_body_of_a_client_that_falls_silent_is_a_408_before_the_time_of_the_rule(serve):
    with ScriptedOrigin(answer()) as origin:
        ghost = serve(origin, timeouts=within(request=LONG), retry=RETRY)
        received, seconds = upload(ghost, with_length(b"x", b"x"), every=20.0)
    assert received.startswith(b"HTTP/1.1 408 ")
    assert 0.4 < seconds < SOON
    assert origin.requests == []


@pytest.mark.parametrize("retry", [RETRY, None], ids=["kept", "streamed"])
def test_client_that_sends_a_part_with_the_head_and_falls_silent_is_a_504_in_time(serve, retry):
    head, *_ = with_length(b"x" * 1000)
    with ScriptedOrigin(answer()) as origin:
        ghost = serve(origin, timeouts=within(request=500), retry=retry)
        received, seconds = upload(ghost, [head + b"x" * 10, b"x"], every=20.0)
    assert received.startswith(b"HTTP/1.1 504 ")
    assert 0.45 < seconds < 4  # varnishd itself waits for 5 seconds


# -- bodies that are gone --------------------------------------------------------------


@contextlib.contextmanager
def own_backend(ghost: GhostHarness, vcl: str) -> Iterator[ScriptedOrigin]:
    """Have user VCL use a backend of its own, which must not receive the length of a body without the body."""
    with ScriptedOrigin(answer()) as own:
        declared = f"""
            backend own {{ .host = "127.0.0.1"; .port = "{own.endpoint.port}"; }}
            sub vcl_recv {{ if (req.url == "/never") {{ set req.backend_hint = own; }} }}
        """
        with loaded(ghost, f"import std; {declared} {vcl}"):
            yield own


@contextlib.contextmanager
def loaded(ghost: GhostHarness, vcl: str) -> Iterator[None]:
    ghost.load_vcl(vcl)
    try:
        yield
    finally:
        ghost.load_vcl()


def leave_early(ghost: GhostHarness) -> bytes:
    """Announce a body of 40 bytes, send one, and no more."""
    with socket.create_connection(("127.0.0.1", ghost.ports["http-80"]), timeout=20) as connection:
        connection.sendall(with_length(b"x" * 40)[0] + b"x")
        connection.shutdown(socket.SHUT_WR)
        received = b""
        while piece := connection.recv(65536):
            received += piece
    return received


@pytest.mark.parametrize(
    "vcl",
    [
        "sub vcl_recv { set req.backend_hint = own; return (pass); }",
        "sub vcl_recv { std.rollback(req); set req.backend_hint = own; return (pass); }",
        "sub vcl_backend_fetch { set bereq.backend = own; }",
    ],
    ids=["recv", "rollback", "fetch"],
)
def test_body_that_did_not_arrive_is_not_announced_to_a_backend_of_user_vcl(serve, vcl):
    with ScriptedOrigin(answer()) as origin:
        ghost = serve(origin, retry=RETRY)
        with own_backend(ghost, vcl) as own:
            received = leave_early(ghost)
    assert not any(b"ontent-Length: 40" in request for request in [*origin.requests, *own.requests])
    if "sub vcl_backend_fetch" not in vcl:
        assert received.startswith(b"HTTP/1.1 400 ")
        assert own.requests == []


def test_rolled_back_request_whose_body_did_not_arrive_is_an_error(serve):
    with ScriptedOrigin(answer()) as origin:
        ghost = serve(origin, retry=RETRY)
        with loaded(ghost, 'import std; sub vcl_recv { std.rollback(req); set req.url = "/other"; }'):
            received = leave_early(ghost)
    assert received.startswith(b"HTTP/1.1 400 ")
    assert origin.requests == []


RESTART = "sub vcl_deliver { if (req.restarts == 0) { return (restart); } }"
TO_OWN = "sub vcl_recv { if (req.restarts == 1) { set req.backend_hint = own; return (pass); } }"


@pytest.mark.parametrize("vcl", [RESTART, RESTART + TO_OWN], ids=["route", "own"])
def test_restarted_upload_that_was_sent_before_is_an_error(serve, vcl):
    with ScriptedOrigin(answer()) as origin:
        ghost = serve(origin)
        with own_backend(ghost, vcl) as own:
            received, _ = upload(ghost, with_length(b"x" * 40))
    assert received.startswith(b"HTTP/1.1 400 ")
    assert b"the body of the request is gone" in received
    assert len(origin.requests) == 1
    assert own.requests == []


def test_restarted_upload_in_chunks_is_not_sent_to_a_route_without_its_body(serve):
    with ScriptedOrigin(answer()) as origin:
        ghost = serve(origin)
        with loaded(ghost, RESTART):
            received, _ = upload(ghost, in_chunks(b"x" * 40))
    assert received.startswith(b"HTTP/1.1 400 ")
    assert len(origin.requests) == 1


def test_restart_as_a_request_without_a_body_is_served(serve):
    as_get = """
        sub vcl_recv {
            if (req.restarts == 1) { set req.method = "GET"; unset req.http.Content-Length; }
        }
    """
    with ScriptedOrigin(answer()) as origin:
        ghost = serve(origin)
        with loaded(ghost, RESTART + as_get):
            received, _ = upload(ghost, with_length(b"x" * 40))
    assert received.startswith(b"HTTP/1.1 200 ")
    assert [request.split(b" ")[0] for request in origin.requests] == [b"POST", b"GET"]


def test_restarted_upload_that_was_kept_is_sent_again(serve):
    with ScriptedOrigin(answer()) as origin:
        ghost = serve(origin, retry=RETRY)
        with loaded(ghost, RESTART):
            received, _ = upload(ghost, with_length(b"x" * 40))
    assert received.startswith(b"HTTP/1.1 200 ")
    assert [request.endswith(b"x" * 40) for request in origin.requests] == [True, True]


# -- slow endpoints --------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("timeouts", LIMITS)
@pytest.mark.parametrize("endpoint", [deaf, sipping])
def test_endpoint_that_does_not_read_an_upload_is_a_504_in_time(serve, endpoint, form, timeouts):
    with endpoint() as slow:
        received, seconds = upload(serve(slow, timeouts=timeouts), form(*[PIECE] * 512))
    assert received.startswith(b"HTTP/1.1 504 ")
    assert 0.45 < seconds < SOON


@pytest.fixture
def hasty(ghost) -> Iterator[None]:
    """Have varnishd itself wait for 0.5 seconds only."""
    ghost.admin("param.set", "first_byte_timeout", "0.5")
    yield
    ghost.admin("param.reset", "first_byte_timeout")


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("form", FORMS)
def test_rule_without_limits_does_not_wait_forever_for_an_endpoint_to_read(serve, form):
    with deaf() as slow:
        received, seconds = upload(serve(slow), form(*[PIECE] * 512))
    assert received.startswith(b"HTTP/1.1 504 ")
    assert seconds < SOON


# -- what goes through -----------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("timeouts", [None, within(request=LONG), within(request=0)])
def test_large_upload_arrives_unchanged(serve, form, timeouts):
    pieces = [bytes([number]) * 100_003 for number in range(80)]
    with ScriptedOrigin(answer(200, b"x" * 100)) as origin:
        received, _ = upload(serve(origin, timeouts=timeouts), form(*pieces))
    assert received.startswith(b"HTTP/1.1 200 ")
    (request,) = origin.requests
    body = request.partition(b"\r\n\r\n")[2]
    assert digest(body if form is with_length else dechunked(body)) == digest(b"".join(pieces))


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def dechunked(body: bytes) -> bytes:
    chunks = []
    while body:
        length, _, rest = body.partition(b"\r\n")
        size = int(length, 16)
        chunks.append(rest[:size])
        body = rest[size + 2 :]
    return b"".join(chunks)


def test_upload_that_no_endpoint_received_is_sent_to_another(serve):
    """The limits of an attempt leave nothing behind in a request whose body was not read."""
    with ScriptedOrigin(answer()) as good, refusing(4) as bad:
        ghost = serve(*bad, good, timeouts=within(request=LONG))
        for _ in range(10):
            received, _ = upload(ghost, with_length(PIECE, PIECE))
            assert received.startswith(b"HTTP/1.1 200 ")
    assert {len(request.partition(b"\r\n\r\n")[2]) for request in good.requests} == {2 * len(PIECE)}


@contextlib.contextmanager
def refusing(count: int) -> Iterator[list[wire.Endpoint]]:
    """Yield addresses that are taken, and refuse connections."""
    with contextlib.ExitStack() as stack:
        taken = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in taken:
            one.bind(("127.0.0.1", 0))
        yield [wire.Endpoint(address="127.0.0.1", port=one.getsockname()[1]) for one in taken]


def test_rolled_back_request_whose_body_was_not_read_is_served(serve):
    """User VCL may free the workspace of a request after a fetch that sent nothing of it."""
    with ScriptedOrigin(answer()) as good, refusing(1) as bad:
        ghost = serve(*bad, timeouts=within(request=LONG))
        ghost.load_vcl(f"""
            import std;
            backend other {{ .host = "127.0.0.1"; .port = "{good.endpoint.port}"; }}
            sub vcl_recv {{ if (req.restarts > 0) {{ set req.backend_hint = other; return (pass); }} }}
            sub vcl_deliver {{
                if (resp.status == 503 && req.restarts == 0) {{ std.rollback(req); return (restart); }}
            }}
        """)
        received, _ = upload(ghost, with_length(PIECE, PIECE))
        ghost.load_vcl()
    assert received.startswith(b"HTTP/1.1 200 ")
    (request,) = good.requests
    assert request.endswith(PIECE * 2)
