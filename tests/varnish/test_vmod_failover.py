"""Endpoints of a pool: an even choice, and another one when a connection is refused."""

import re
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from support.http.origins import Origin
from support.varnish.ghost import Config, GhostHarness, backend, refusing_endpoint, route, to
from support.waiting import until
from varnish_gateway.ir import wire


@pytest.fixture(scope="module")
def origins() -> Iterator[list[Origin]]:
    with Origin("a") as a, Origin("b") as b, Origin("c") as c:
        yield [a, b, c]


@pytest.fixture(scope="module")
def ghost() -> Iterator[GhostHarness]:
    with GhostHarness(Config()) as running:
        yield running


@pytest.fixture
def serve(ghost):
    def reload(*endpoints: Origin | wire.Endpoint) -> GhostHarness:
        config = Config([route("r", to(backend("pool")))], {"pool": endpoints})
        assert ghost.reload(config).status == 200
        return ghost

    return reload


def test_endpoints_share_evenly(serve, origins):
    with serve(*origins).client() as client:
        served = Counter(client.get().origin for _ in range(1500))
    assert all(400 < served[name] < 600 for name in "abc"), served


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_endpoint_that_refuses_connections_fails_no_request(serve, origins, method):
    ghost = serve(origins[0], refusing_endpoint(), refusing_endpoint())
    body = "x" * 3000 if method == "POST" else ""
    origins[0].seen.clear()
    with ghost.client() as client:
        answers = [client.get(method=method, body=body.encode() or None) for _ in range(100)]
    assert {(one.status, one.origin) for one in answers} == {(200, "a")}
    assert len(origins[0].seen) == 100
    assert {seen.body for seen in origins[0].seen} == {body}


def test_failed_attempts_leave_no_trace_in_the_request(serve, origins):
    ghost = serve(origins[0], *(refusing_endpoint() for _ in range(5)))
    origins[0].seen.clear()
    # Without a Host header each attempt adds one of its own.
    answers = [ghost.raw(b"GET / HTTP/1.0\r\nConnection: close\r\n\r\n") for _ in range(20)]
    assert all(b" 200 " in answer for answer in answers)
    assert all(len(seen.values("host")) == 1 for seen in origins[0].seen)


def test_the_rest_of_the_load_is_shared_evenly_around_a_dead_endpoint(serve, origins):
    with serve(refusing_endpoint(), *origins).client() as client:
        served = Counter(client.get().origin for _ in range(1500))
    assert all(400 < served[name] < 600 for name in "abc"), served


def test_service_whose_endpoints_all_refuse_answers_503(serve):
    answer = serve(refusing_endpoint(), refusing_endpoint()).get()
    assert answer.status == 503
    assert b"No endpoint accepts connections" in answer.body


@contextmanager
def accepting(meet: Callable[[socket.socket], object]) -> Iterator[wire.Endpoint]:
    """Serve an endpoint that does this with every connection, and closes it."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def run() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    meet(connection)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield wire.Endpoint(address="127.0.0.1", port=server.getsockname()[1])
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


@contextmanager
def closing_endpoint() -> Iterator[tuple[wire.Endpoint, list[bytes]]]:
    """Serve an endpoint that reads a request and closes without an answer."""
    requests: list[bytes] = []
    with accepting(lambda connection: requests.append(connection.recv(65536))) as endpoint:
        yield endpoint, requests


def resetting_endpoint() -> AbstractContextManager[wire.Endpoint]:
    """Serve an endpoint that accepts every connection and resets it unread, as one that is being restarted does."""
    at_once = struct.pack("ii", 1, 0)
    return accepting(lambda connection: connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once))


def test_a_request_that_may_have_been_seen_is_not_sent_again(serve):
    with closing_endpoint() as (first, seen_first), closing_endpoint() as (second, seen_second):
        answer = serve(first, second).get()
    assert answer.status == 502
    assert len(seen_first) + len(seen_second) == 1


@pytest.mark.parametrize(
    ("framing", "body"),
    [(b"Content-Length: 10", b"0123456789"), (b"Transfer-Encoding: chunked", b"a\r\n0123456789\r\n0\r\n\r\n")],
)
def test_a_body_that_is_gone_is_never_taken_for_an_empty_one(serve, origins, framing, body):
    """Varnish reads the body of a slow client for an endpoint that then turns out to be gone."""
    origins[0].seen.clear()
    with resetting_endpoint() as gone:
        ghost = serve(gone, origins[0])
        statuses = Counter(slowly(ghost, b"PUT / HTTP/1.1\r\nHost: a\r\n" + framing + b"\r\n", body) for _ in range(12))
    assert {seen.body for seen in origins[0].seen} <= {"0123456789"}
    assert statuses[200] == len(origins[0].seen)
    assert set(statuses) <= {200, 502, None}


def slowly(ghost: GhostHarness, head: bytes, body: bytes) -> int | None:
    """Send the body of a request a moment after its head; return the status of the answer, unless a reset ate it."""
    with socket.create_connection(("127.0.0.1", ghost.ports["http-80"]), timeout=10) as client:
        client.sendall(head + b"Connection: close\r\n\r\n")
        time.sleep(0.1)
        client.sendall(body)
        try:
            return int(client.recv(65536).split(b" ")[1])
        except ConnectionResetError:
            return None


def test_a_sick_endpoint_is_left_alone(serve, origins):
    ghost = serve(*origins)
    name = f"vcl1.127.0.0.1:{origins[0].port}"
    ghost.admin("backend.set_health", name, "sick")
    with ghost.client() as client:
        served = Counter(client.get().origin for _ in range(100))
    ghost.admin("backend.set_health", name, "auto")
    assert set(served) == {"b", "c"}


def test_backend_list_reports_health(serve, origins):
    listed = serve(origins[0], refusing_endpoint()).admin("backend.list")
    assert re.search(r"vcl1\.pool\(default/pool:80\)\s+probe\s+2/2\s+healthy", listed)
    assert re.search(r"vcl1\.rule\(default/r/0\)\s+probe\s+1/1\s+healthy", listed)
    empty = serve().admin("backend.list", "-j")
    assert '"vcl1.pool(default/pool:80)"' in empty


def test_ipv6_endpoints(serve):
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
        endpoint = wire.Endpoint(address="::1", port=server.getsockname()[1])

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        assert serve(endpoint).get().status == 204
        thread.join()


def test_bytes_are_charged_to_the_endpoint_that_served(serve, origins):
    ghost = serve(origins[0], refusing_endpoint())
    with ghost.client() as client:
        for _ in range(20):
            client.get(headers=[("X-Long", "x" * 1000)])

    def charged() -> bool:
        # Fetches of the reload end whenever they like.
        sent = re.findall(r"BereqHeader\s+X-Long: .*?BereqAcct\s+(\d+)", ghost.log, re.DOTALL)
        return len(sent) == 20 and all(1000 < int(count) < 1500 for count in sent)

    # varnishd logs a fetch only after the client has its response.
    until(charged, "each fetch is charged for one request")
