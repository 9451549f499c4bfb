"""Time-outs of rules: a 504 in time, whatever keeps the endpoint busy; nothing for rules without."""

import asyncio
import time
from collections.abc import Callable, Iterator

import pytest

from varnish.ghostlab import Config, Lab, backend, refusing_endpoint, route, to
from varnish.scripted import Scripted, answer, close, late, silence, trickle
from varnish.talk import Answer, Request, over_http2
from varnish_gateway.ir import wire

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab(Config()) as running:
        child = running.child
        yield running
        assert running.child == child


@pytest.fixture
def serve(lab) -> Callable[..., Lab]:
    def reload(*endpoints: Scripted | wire.Endpoint, **rule) -> Lab:
        members = [one.endpoint if isinstance(one, Scripted) else one for one in endpoints]
        assert lab.reload(Config([route("r", to(backend("pool"), **rule))], {"pool": members})).status == 200
        return lab

    return reload


def timed(lab: Lab, **request) -> tuple[Answer, float]:
    began = time.monotonic()
    answered = lab.get(**request)
    return answered, time.monotonic() - began


def within(request: int = 0, backend_request: int = 0) -> wire.Timeouts:
    return wire.Timeouts(request=request, backend_request=backend_request)


@pytest.mark.parametrize("timeouts", [within(request=300), within(backend_request=300)])
def test_a_silent_endpoint_is_a_504_in_time(serve, timeouts):
    with Scripted(silence) as slow:
        answered, seconds = timed(serve(slow, timeouts=timeouts))
    assert answered.status == 504
    assert 0.29 < seconds < 0.8


def test_over_http2_too(serve):
    with Scripted(silence) as slow:
        lab = serve(slow, timeouts=within(request=300))
        request = Request(method="GET", target="/", host="example.com")
        (answered,) = asyncio.run(over_http2(lab.ports["http-80"], [request]))
    assert answered.status == 504


@pytest.mark.parametrize("timeouts", [within(request=2000), within(backend_request=2000), None])
def test_an_endpoint_in_time_is_heard(serve, timeouts):
    with Scripted(late(0.4, answer())) as slow:
        assert serve(slow, timeouts=timeouts).get().status == 200


def test_a_connection_that_was_used_before_is_no_less_in_time(serve):
    with Scripted(answer(), late(0.2, answer()), silence) as slow:
        lab = serve(slow, timeouts=within(request=500))
        assert [lab.get().status, lab.get().status] == [200, 200]
        answered, seconds = timed(lab)
    assert (answered.status, slow.connections) == (504, 1)
    assert 0.45 < seconds < 1.1


def test_a_broken_connection_is_no_time_out(serve):
    with Scripted(close) as broken:
        assert serve(broken, timeouts=within(request=2000)).get().status == 502
    assert serve(refusing_endpoint(), timeouts=within(request=2000)).get().status == 503


def test_time_outs_of_varnishd_itself_are_504_too(serve):
    with Scripted(silence) as slow:
        lab = serve(slow)
        lab.admin("param.set", "first_byte_timeout", "0.3")
        answered, _ = timed(lab)
        lab.admin("param.reset", "first_byte_timeout")
    assert answered.status == 504


@pytest.mark.parametrize("timeouts", [within(request=400), within(backend_request=400)])
@pytest.mark.parametrize("every", [0.1, 5.0])
def test_a_body_that_takes_too_long_is_cut_off(serve, timeouts, every):
    with Scripted(trickle([HEAD, *[b"x"] * 100], every), answer()) as slow:
        lab = serve(slow, timeouts=timeouts)
        began = time.monotonic()
        raw = lab.raw(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert 0.35 < time.monotonic() - began < 1.2
        assert raw.partition(b"\r\n\r\n")[2].count(b"x") < 10
        assert lab.get().status == 200
        assert slow.connections == 2  # what was left of the body is nobody's answer


def test_a_head_that_stalls_is_a_504(serve):
    with Scripted(trickle([HEAD[:10], b""], 5.0)) as slow:
        answered, seconds = timed(serve(slow, timeouts=within(request=400)))
    assert answered.status == 504
    assert seconds < 1.2


def test_the_shorter_one_counts(serve):
    with Scripted(silence) as slow:
        _, seconds = timed(serve(slow, timeouts=within(request=5000, backend_request=200)))
        assert seconds < 0.8
        _, seconds = timed(serve(slow, timeouts=within(request=200, backend_request=5000)))
        assert seconds < 0.8


def test_what_user_vcl_asks_for_counts_if_it_is_shorter(serve):
    with Scripted(silence) as slow:
        lab = serve(slow, timeouts=within(request=5000))
        lab.load_vcl("""
            sub vcl_backend_fetch { set bereq.first_byte_timeout = 0.2s; }
            sub vcl_backend_error {
                set beresp.http.X-Then = bereq.first_byte_timeout + " " + beresp.status + " " + beresp.reason;
            }
        """)
        answered, seconds = timed(lab)
        lab.load_vcl()
    assert (answered.status, answered.header("x-then")) == (504, "0.200 504 Endpoint timed out")
    assert seconds < 0.8


def test_the_deadline_covers_retries_in_vcl(serve):
    with Scripted(late(0.3, answer(500))) as slow:
        lab = serve(slow, timeouts=within(request=500))
        lab.load_vcl("sub vcl_backend_response { if (beresp.status == 500) { return (retry); } }")
        answered, seconds = timed(lab)
        lab.load_vcl()
    assert answered.status == 504
    assert seconds < 1.0


def test_an_endpoint_that_can_not_be_reached_costs_its_share_of_time(serve):
    """192.0.2.0/24 is never routed; where it is unreachable at once, that is no time-out."""
    with Scripted(answer()) as good:
        hole = wire.Endpoint(address="192.0.2.99", port=80)
        lab = serve(hole, good, timeouts=within(request=3000, backend_request=300))
        assert {lab.get(method="POST", body=b"x").status for _ in range(6)} == {200}
        answered, seconds = timed(serve(hole, timeouts=within(request=300)))
    assert answered.status in {503, 504}
    assert seconds < 0.9


def test_a_body_in_time_goes_through_every_filter(serve):
    text = b"<html>" + b"plain text that is long enough to be worth it " * 5000
    with Scripted(answer(200, text, headers=["Cache-Control: max-age=60"])) as good:
        lab = serve(good, timeouts=within(request=20_000, backend_request=10_000))
        lab.load_vcl("""
            sub vcl_recv { return (hash); }
            sub vcl_backend_response { set beresp.do_gzip = true; set beresp.do_esi = true; }
        """)
        assert {lab.get("/page").body for _ in range(3)} == {text}
        assert lab.get("/other", headers=[("Accept-Encoding", "gzip")]).header("content-encoding") == "gzip"
        lab.load_vcl()
        assert len(good.requests) == 2
