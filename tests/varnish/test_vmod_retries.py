"""Retries of rules: after which failures, how often, how soon, and never what would do harm."""

import asyncio
import socket
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.http.client import Request, over_http2
from support.http.scripted_origin import ScriptedOrigin, Step, answer, close, late, reset, silence, trickle
from support.varnish.ghost import CACHE_EVERYTHING, Config, GhostHarness, backend, prefix, refusing_endpoint, route, to
from support.waiting import until
from varnish_gateway.ir import wire

ERRORS = (500, 502, 503, 504)
SOON = 5.0
"""What a busy machine may make of a few hundred milliseconds; well below every limit that is not to count."""


def retry(attempts: int, *, codes: tuple[int, ...] = ERRORS, backoff: int = 1) -> wire.Retry:
    return wire.Retry(codes=codes, attempts=attempts, backoff=backoff)


@pytest.mark.parametrize("status", ERRORS)
@pytest.mark.parametrize("failures", [0, 1, 2, 3])
def test_an_answer_with_one_of_the_codes_is_asked_for_again(serve, status, failures):
    with ScriptedOrigin(*[answer(status)] * failures, answer(200, b"good")) as flaky:
        answered = serve(flaky, retry=retry(2)).get()
    assert (answered.status, len(flaky.requests)) == ((200, failures + 1) if failures <= 2 else (status, 3))
    assert answered.body == (b"good" if failures <= 2 else b"done")
    assert flaky.connections == 1  # what is thrown away is read, so that its connection can go on


def test_over_http2_too(serve):
    with ScriptedOrigin(answer(500), answer(500), answer()) as flaky:
        ghost = serve(flaky, retry=retry(2))
        requests = [Request(method="POST", target="/", host="example.com", body="x" * 3000)]
        (answered,) = asyncio.run(over_http2(ghost.ports["http-80"], requests))
    assert answered.status == 200
    assert [request.count(b"x" * 3000) for request in flaky.requests] == [1, 1, 1]


def test_other_codes_are_answers(serve):
    with ScriptedOrigin(answer(503), answer()) as flaky:
        assert serve(flaky, retry=retry(3, codes=(500,))).get().status == 503
        assert len(flaky.requests) == 1


def test_rule_without_retries_delivers_the_first_response(serve):
    with ScriptedOrigin(close, answer(503), answer()) as flaky:
        ghost = serve(flaky)
        assert [ghost.get().status, ghost.get().status] == [502, 503]
        assert len(flaky.requests) == 2


def test_a_response_that_is_thrown_away_leaves_nothing_behind(serve):
    """Neither its headers nor its body, whatever its form."""
    chunked = trickle([b"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\nX-Bad: 1\r\n\r\n5\r\nwrong\r\n0\r\n\r\n"], 0)
    large = answer(500, b"wrong" * 100_000, headers=["X-Bad: 1"])
    stalled = trickle([b"HTTP/1.1 500 No\r\nContent-Length: 9\r\nX-Bad: 1\r\n\r\nwrong"], 15)
    empty = answer(500, b"", headers=["X-Bad: 1"])
    to_the_end = trickle([b"HTTP/1.1 500 No\r\nX-Bad: 1\r\n\r\nwrong"], 15)
    for bad in (chunked, large, stalled, empty, to_the_end):
        with ScriptedOrigin(bad, answer(200, b"right")) as flaky:
            began = time.monotonic()
            answered = serve(flaky, retry=retry(1)).get()
            assert time.monotonic() - began < SOON
        assert (answered.status, answered.body, answered.header("x-bad")) == (200, b"right", None)


@pytest.mark.parametrize(
    "framing",
    [
        b"Transfer-Encoding: chunked\r\nContent-Length: 5",
        b"Transfer-Encoding: gzip, chunked",
        b"Content-Length: 5\r\nContent-Length: 6",
    ],
)
def test_bytes_after_a_retried_response_are_not_taken_for_the_next_one(serve, framing):
    forged = b"HTTP/1.1 200 Forged\r\nContent-Length: 6\r\n\r\nforged"
    endless = trickle([b"HTTP/1.1 503 No\r\n" + framing + b"\r\n\r\n", forged], 0.1)
    with ScriptedOrigin(endless, answer(200, b"right")) as flaky:
        answered = serve(flaky, retry=retry(1, backoff=20)).get()
    assert (answered.status, answered.body) == (200, b"right")
    assert flaky.connections == 2


@pytest.mark.parametrize("timeouts", [None, wire.Timeouts(request=20_000)])
def test_a_response_that_drips_is_not_waited_for(serve, timeouts):
    """However little it keeps sending: its 200 bytes would take 10 s."""
    drips = trickle([b"HTTP/1.1 500 No\r\nContent-Length: 200\r\n\r\n", *[b"x"] * 200], 0.05)
    with ScriptedOrigin(drips, answer(200, b"right")) as flaky:
        answered = serve(flaky, retry=retry(1), timeouts=timeouts).get()
        (pause,) = flaky.pauses
    assert (answered.status, answered.body) == (200, b"right")
    assert pause < SOON
    assert flaky.connections == 2


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_retry_prefers_an_endpoint_that_has_not_failed(serve, method):
    with ScriptedOrigin(answer(500)) as bad, ScriptedOrigin(answer()) as good:
        ghost = serve(bad, good, retry=retry(1))
        assert {ghost.get(method=method).status for _ in range(20)} == {200}
        assert len(good.requests) == 20


# -- connections and time-outs ---------------------------------------------------------


@pytest.mark.parametrize("failure", [close, reset])
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])
def test_a_broken_connection_is_tried_again_if_that_does_no_harm(serve, failure, method):
    with ScriptedOrigin(failure, failure, answer(200, b"")) as flaky:
        body = b"small" if method == "PUT" else None
        assert serve(flaky, retry=retry(2, codes=())).get(method=method, body=body).status == 200
        assert [request.endswith(body or b"\r\n\r\n") for request in flaky.requests] == [True] * 3


@pytest.mark.parametrize("failure", [close, reset])
@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_and_not_if_it_could_do_something_twice(serve, failure, method):
    with ScriptedOrigin(failure, answer()) as flaky:
        assert serve(flaky, retry=retry(2)).get(method=method).status == 502
        assert len(flaky.requests) == 1


def test_a_time_out_of_an_attempt_is_tried_again(serve):
    with ScriptedOrigin(silence, answer()) as slow:
        timeouts = wire.Timeouts(request=15_000, backend_request=500)
        ghost = serve(slow, retry=retry(1, codes=()), timeouts=timeouts)
        assert ghost.get().status == 200
        assert slow.pauses[0] >= 0.2
    with ScriptedOrigin(silence, answer()) as slow:
        assert serve(slow, retry=retry(1, codes=()), timeouts=timeouts).get(method="POST").status == 504
        assert len(slow.requests) == 1


def test_too_many_time_outs_are_a_504(serve):
    with ScriptedOrigin(silence) as slow:
        timeouts = wire.Timeouts(backend_request=100)
        assert serve(slow, retry=retry(2), timeouts=timeouts).get().status == 504
        assert len(slow.requests) == 3


def test_retry_finds_an_endpoint_that_recovered(serve):
    """Nothing was sent, so any method may be tried again; varnishd leaves it alone for 250 ms."""
    ghost = serve(refusing_endpoint(), retry=retry(2))
    began = time.monotonic()
    assert ghost.get(method="POST", body=b"x").status == 503
    assert 0.5 < time.monotonic() - began < SOON


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_refused_connections_cost_no_retry(serve, method):
    with ScriptedOrigin(answer(500), answer()) as flaky:
        ghost = serve(flaky, *(refusing_endpoint() for _ in range(4)), retry=retry(1))
        assert ghost.get(method=method).status == 200


# -- connections that were used before --------------------------------------------------


def on_a_used_connection(ghost: GhostHarness, method: str, body: bytes | None = None) -> int:
    """Send a request on the connection that another one has left; return its status."""
    before = f"/before-{uuid.uuid4()}"
    assert ghost.get(before).status == 200
    ghost.wait_recycled(before)
    return ghost.get("/then", method=method, body=body).status


ONCE = [("POST", None), ("POST", b"small"), ("PATCH", b"small"), ("LOCK", None)]
AGAIN = [("GET", None), ("HEAD", None), ("DELETE", None), ("OPTIONS", None), ("PUT", b"small")]


@pytest.mark.parametrize("failure", [close, reset])
@pytest.mark.parametrize("policy", [None, retry(2)])
@pytest.mark.parametrize(("method", "body"), ONCE)
def test_endpoint_that_closes_a_used_connection_gets_a_request_that_is_not_idempotent_once(
    serve, failure, policy, method, body
):
    with ScriptedOrigin(answer(), failure, answer()) as flaky:
        assert on_a_used_connection(serve(flaky, retry=policy), method, body) == 502
    before, then = flaky.ports
    assert before == then


@pytest.mark.parametrize("failure", [close, reset])
@pytest.mark.parametrize(("method", "body"), AGAIN)
def test_endpoint_that_closes_a_used_connection_gets_an_idempotent_request_again(serve, failure, method, body):
    with ScriptedOrigin(answer(), failure, answer(200, b"")) as flaky:
        # varnishd keeps the body of a request for rules with retries; it needs none of them here.
        assert on_a_used_connection(serve(flaky, retry=body and retry(1)), method, body) == 200
    before, then, again = flaky.ports
    assert before == then != again


def test_status_that_is_retried_repeats_a_post_on_a_used_connection(serve):
    with ScriptedOrigin(answer(), answer(503), answer()) as flaky:
        assert on_a_used_connection(serve(flaky, retry=retry(1)), "POST", b"small") == 200
    assert len(set(flaky.ports)) == 1


def test_user_vcl_may_repeat_what_varnishd_does_not(serve):
    """What ghost withholds is varnishd's own second chance, not the ``return (retry)`` of user VCL."""
    with ScriptedOrigin(answer(), close, answer()) as flaky:
        ghost = serve(flaky)
        ghost.load_vcl("sub vcl_backend_error { return (retry); }")
        assert on_a_used_connection(ghost, "POST") == 200
        ghost.load_vcl()
    assert len(flaky.requests) == 3


# -- time ------------------------------------------------------------------------------


def test_a_retry_waits_for_the_backoff(serve):
    with ScriptedOrigin(answer(500)) as bad:
        assert serve(bad, retry=retry(3, backoff=50)).get().status == 500
        assert [pause >= 0.04 * 2**n for n, pause in enumerate(bad.pauses)] == [True] * 3


def test_the_deadline_covers_all_attempts(serve):
    with ScriptedOrigin(late(0.5, answer(500))) as slow:
        ghost = serve(slow, retry=retry(20), timeouts=wire.Timeouts(request=1200))
        began = time.monotonic()
        assert ghost.get().status == 504
        assert 1.1 < time.monotonic() - began < SOON


def test_response_is_delivered_if_no_time_is_left_for_a_retry(serve):
    with ScriptedOrigin(answer(500, b"the first")) as bad:
        ghost = serve(bad, retry=retry(3, backoff=20_000), timeouts=wire.Timeouts(request=15_000))
        began = time.monotonic()
        answered = ghost.get()
        assert time.monotonic() - began < SOON
    assert (answered.status, answered.body) == (500, b"the first")


def test_pauses_leave_threads_for_the_others(tea):
    """Each holds two of them; here all requests at once would hold nearly every one."""
    threads = {"thread_pools": "1", "thread_pool_max": "100"}
    everything = wire.RequestRules(shares=wire.WorkerShares(namespace=100, route=100, backend=100))
    with ScriptedOrigin(answer(500)) as bad:
        rules = [
            to(backend("bad"), matches=[prefix("/bad")], retry=retry(1, backoff=5000)),
            to(backend("tea")),
        ]
        config = Config([route("r", *rules)], {"bad": [bad.endpoint], "tea": [tea]}, requests=everything)
        with GhostHarness(config, parameters=threads) as ghost, ThreadPoolExecutor(40) as clients:
            asked = [clients.submit(ghost.get, "/bad") for _ in range(40)]
            until(lambda: len(bad.requests) >= 25, "most of them are answered, or pause")
            began = time.monotonic()
            assert ghost.get("/good").origin == "tea"
            assert time.monotonic() - began < 3
            assert {one.result().status for one in asked} == {500}
            assert 40 < len(bad.requests) <= 45


def test_any_number_of_attempts_is_paced_and_ends_with_its_time(serve):
    """At full speed there would be a thousand of them."""
    with ScriptedOrigin(answer(500)) as bad:
        ghost = serve(bad, retry=retry(1_000_000, backoff=0), timeouts=wire.Timeouts(request=2000))
        began = time.monotonic()
        assert ghost.get().status == 500
        assert time.monotonic() - began < 2 + SOON
    assert 5 < len(bad.requests) < 30


def test_pauses_of_one_route_leave_some_to_the_others():
    """Of ten pauses at a time, here, the first route can have five."""
    threads = {"thread_pools": "1", "thread_pool_min": "100", "thread_pool_max": "200"}
    with ScriptedOrigin(answer(500)) as bad, ScriptedOrigin(answer(500), answer()) as flaky:
        once = wire.Timeouts(request=15_000)
        greedy = to(backend("bad"), matches=[prefix("/bad")], retry=retry(1000, backoff=8000), timeouts=once)
        modest = to(backend("flaky"), matches=[prefix("/flaky")], retry=retry(1))
        pools = {"bad": [bad.endpoint], "flaky": [flaky.endpoint]}
        config = Config([route("a", greedy), route("b", modest)], pools)
        with GhostHarness(config, parameters=threads) as ghost, ThreadPoolExecutor(40) as clients:
            asked = [clients.submit(ghost.get, "/bad") for _ in range(40)]
            until(lambda: sum(one.done() for one in asked) >= 30, "those that can't pause have their response")
            assert ghost.get("/flaky").status == 200
            assert not all(one.done() for one in asked)


# -- request bodies --------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 1000, 64 << 10])
def test_a_small_body_is_sent_again(serve, size):
    with ScriptedOrigin(answer(500), answer()) as flaky:
        body = b"b" * size
        assert serve(flaky, retry=retry(1)).get(method="POST", body=body).status == 200
        assert [request.partition(b"\r\n\r\n")[2] for request in flaky.requests] == [body, body]


def test_a_large_body_is_sent_once(serve):
    with ScriptedOrigin(answer(500), answer()) as flaky:
        assert serve(flaky, retry=retry(1)).get(method="POST", body=b"b" * (65 << 10)).status == 500
        assert len(flaky.requests) == 1


def test_a_body_of_unknown_length_is_sent_once(serve):
    with ScriptedOrigin(answer(500), answer()) as flaky:
        request = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        raw = serve(flaky, retry=retry(1)).raw(request + b"5\r\nabcde\r\n0\r\n\r\n")
        assert raw.startswith(b"HTTP/1.1 500 ")
        assert len(flaky.requests) == 1


def test_a_client_that_waits_for_a_go_ahead_gets_it(serve):
    head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
    with ScriptedOrigin(answer(500), answer()) as flaky:
        ghost = serve(flaky, retry=retry(1))
        with socket.create_connection(("127.0.0.1", ghost.ports["http-80"]), timeout=10) as client:
            client.sendall(head)
            assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
            client.sendall(b"abc")
            assert client.recv(1000).startswith(b"HTTP/1.1 200 ")


# -- beside everything else ------------------------------------------------------------


def test_it_holds_behind_the_cache_too(serve):
    with ScriptedOrigin(answer(500), answer(headers=["Cache-Control: max-age=60"]), answer(500)) as flaky:
        ghost = serve(flaky, retry=retry(1))
        ghost.load_vcl(CACHE_EVERYTHING)
        assert [ghost.get("/cached").status for _ in range(3)] == [200] * 3
        ghost.load_vcl()
        assert len(flaky.requests) == 2


def test_vcl_backend_error_is_the_users(serve):
    with ScriptedOrigin(close) as bad:
        ghost = serve(bad, retry=retry(1))
        ghost.load_vcl("sub vcl_backend_error { set beresp.http.Was = beresp.reason; set beresp.status = 299; }")
        answered = ghost.get()
        ghost.load_vcl()
    assert (answered.status, answered.header("was")) == (299, "Endpoint closed the connection")
    assert len(bad.requests) == 2


def mixture() -> list[Step]:
    return [answer(500), close, answer(), reset, answer(503, b"x" * 70000), answer(), answer()]


def test_many_failing_attempts_cost_no_memory_and_no_descriptors(serve):
    with ScriptedOrigin(*mixture() * 200) as flaky:
        ghost = serve(flaky, retry=retry(3), timeouts=wire.Timeouts(backend_request=5000))
        with ghost.client() as client:
            assert {client.get().status for _ in range(100)} == {200}
            memory, files = ghost.resident_bytes, ghost.open_files
            assert {client.get().status for _ in range(400)} == {200}
        assert ghost.resident_bytes - memory < 8 << 20
        assert ghost.open_files - files < 10
