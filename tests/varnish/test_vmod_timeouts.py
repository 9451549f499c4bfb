"""Time-outs of rules: a 504 in time, whatever keeps the endpoint busy; nothing for rules without."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from support.http.client import Answer, Request, over_http2
from support.http.scripted_origin import ScriptedOrigin, answer, close, late, silence, trickle
from support.varnish.ghost import GhostHarness, black_hole, refusing_endpoint
from varnish_gateway.ir import wire

SOON = 5.0
"""What a busy machine may make of a few hundred milliseconds; well below every limit that is not to count."""
LONG = 15_000
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"


def timed(ghost: GhostHarness, **request) -> tuple[Answer, float]:
    began = time.monotonic()
    answered = ghost.get(**request)
    return answered, time.monotonic() - began


def within(request: int | None = None, backend_request: int | None = None) -> wire.Timeouts:
    return wire.Timeouts(request=request, backend_request=backend_request)


@pytest.mark.parametrize("timeouts", [within(request=300), within(backend_request=300)])
def test_a_silent_endpoint_is_a_504_in_time(serve, timeouts):
    with ScriptedOrigin(silence) as slow:
        answered, seconds = timed(serve(slow, timeouts=timeouts))
    assert answered.status == 504
    assert 0.29 < seconds < SOON


def test_over_http2_too(serve):
    with ScriptedOrigin(silence) as slow:
        ghost = serve(slow, timeouts=within(request=300))
        request = Request(method="GET", target="/", host="example.com")
        (answered,) = asyncio.run(over_http2(ghost.ports["http-80"], [request]))
    assert answered.status == 504


@pytest.mark.parametrize("timeouts", [within(request=LONG), within(backend_request=LONG), None])
def test_endpoint_that_answers_in_time_is_served(serve, timeouts):
    with ScriptedOrigin(late(0.4, answer())) as slow:
        assert serve(slow, timeouts=timeouts).get().status == 200


def test_a_connection_that_was_used_before_is_no_less_in_time(serve):
    with ScriptedOrigin(answer(), late(0.2, answer()), silence) as slow:
        ghost = serve(slow, timeouts=within(request=2000))
        for path in ("/first", "/second"):
            assert ghost.get(path).status == 200
            ghost.wait_recycled(path)
        answered, seconds = timed(ghost)
    assert (answered.status, slow.connections) == (504, 1)
    assert 1.95 < seconds < 2 + SOON


def test_a_broken_connection_is_no_time_out(serve):
    with ScriptedOrigin(close) as broken:
        assert serve(broken, timeouts=within(request=LONG)).get().status == 502
    assert serve(refusing_endpoint(), timeouts=within(request=LONG)).get().status == 503


@pytest.fixture
def hasty(ghost) -> Iterator[None]:
    """Have varnishd itself wait for 0.3 seconds only."""
    for parameter in ("first_byte_timeout", "between_bytes_timeout"):
        ghost.admin("param.set", parameter, "0.3")
    yield
    for parameter in ("first_byte_timeout", "between_bytes_timeout"):
        ghost.admin("param.reset", parameter)


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("timeouts", [None, wire.Timeouts()])
def test_time_outs_of_varnishd_itself_are_504_too(serve, timeouts):
    with ScriptedOrigin(silence) as slow:
        answered, _ = timed(serve(slow, timeouts=timeouts))
    assert answered.status == 504


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize(
    "timeouts",
    [
        within(request=LONG),
        within(backend_request=LONG),
        within(request=0),
        within(backend_request=0),
        within(request=0, backend_request=LONG),
        within(request=LONG, backend_request=0),
    ],
)
def test_limit_of_a_rule_overrides_varnishds_timeout(serve, timeouts):
    body = [HEAD[:10], HEAD[10:], b"x" * 50, b"x" * 50]
    with ScriptedOrigin(late(0.7, trickle(body, 0.7))) as slow:
        answered = serve(slow, timeouts=timeouts).get()
    assert (answered.status, answered.body) == (200, b"x" * 100)


def test_timeout_of_user_vcl_applies_without_a_limit(serve):
    with ScriptedOrigin(silence) as slow:
        ghost = serve(slow, timeouts=within(request=0))
        ghost.load_vcl("sub vcl_backend_fetch { set bereq.first_byte_timeout = 0.2s; }")
        answered, seconds = timed(ghost)
        ghost.load_vcl()
    assert answered.status == 504
    assert seconds < SOON


@pytest.mark.parametrize("timeouts", [within(request=400), within(backend_request=400)])
@pytest.mark.parametrize("every", [0.1, 20.0])
def test_a_body_that_takes_too_long_is_cut_off(serve, timeouts, every):
    with ScriptedOrigin(trickle([HEAD, *[b"x"] * 100], every), answer()) as slow:
        ghost = serve(slow, timeouts=timeouts)
        began = time.monotonic()
        raw = ghost.raw(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert 0.35 < time.monotonic() - began < SOON
        assert raw.partition(b"\r\n\r\n")[2].count(b"x") < 50
        assert ghost.get().status == 200
        assert slow.connections == 2  # the rest of the body answers no other request


def test_a_head_that_stalls_is_a_504(serve):
    with ScriptedOrigin(trickle([HEAD[:10], b""], 20.0)) as slow:
        answered, seconds = timed(serve(slow, timeouts=within(request=400)))
    assert answered.status == 504
    assert seconds < SOON


def test_the_shorter_one_counts(serve):
    with ScriptedOrigin(silence) as slow:
        _, seconds = timed(serve(slow, timeouts=within(request=LONG, backend_request=200)))
        assert seconds < SOON
        _, seconds = timed(serve(slow, timeouts=within(request=200, backend_request=LONG)))
        assert seconds < SOON


def test_shorter_timeout_of_user_vcl_applies(serve):
    with ScriptedOrigin(silence) as slow:
        ghost = serve(slow, timeouts=within(request=LONG))
        ghost.load_vcl("""
            sub vcl_backend_fetch { set bereq.first_byte_timeout = 0.2s; }
            sub vcl_backend_error {
                set beresp.http.X-Then = bereq.first_byte_timeout + " " + beresp.status + " " + beresp.reason;
            }
        """)
        answered, seconds = timed(ghost)
        ghost.load_vcl()
    assert (answered.status, answered.header("x-then")) == (504, "0.200 504 Endpoint timed out")
    assert seconds < SOON


def test_the_deadline_covers_retries_in_vcl(serve):
    with ScriptedOrigin(late(0.3, answer(500))) as slow:
        ghost = serve(slow, timeouts=within(request=500))
        ghost.load_vcl("sub vcl_backend_response { if (beresp.status == 500) { return (retry); } }")
        answered, seconds = timed(ghost)
        ghost.load_vcl()
    assert answered.status == 504
    assert seconds < SOON


def test_an_endpoint_that_can_not_be_reached_costs_its_share_of_time(serve, ghost):
    ghost.admin("param.set", "connect_timeout", "30")
    with ScriptedOrigin(answer()) as good, black_hole() as hole:
        ghost = serve(hole, good, timeouts=within(request=LONG, backend_request=300))
        assert {ghost.get(method="POST", body=b"x").status for _ in range(6)} == {200}
        answered, seconds = timed(serve(hole, timeouts=within(request=300)))
    ghost.admin("param.reset", "connect_timeout")
    assert answered.status == 504
    assert 0.29 < seconds < SOON


def test_a_body_in_time_goes_through_every_filter(serve):
    text = b"<html>" + b"plain text that is long enough to be worth it " * 5000
    with ScriptedOrigin(answer(200, text, headers=["Cache-Control: max-age=60"])) as good:
        ghost = serve(good, timeouts=within(request=20_000, backend_request=10_000))
        ghost.load_vcl("""
            sub vcl_recv { return (hash); }
            sub vcl_backend_response { set beresp.do_gzip = true; set beresp.do_esi = true; }
        """)
        assert {ghost.get("/page").body for _ in range(3)} == {text}
        assert ghost.get("/other", headers=[("Accept-Encoding", "gzip")]).header("content-encoding") == "gzip"
        ghost.load_vcl()
        assert len(good.requests) == 2
