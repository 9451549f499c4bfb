import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from varnish_gateway.kube.limits import Bucket, Limits, RequestBackoff, Turnstile, spread


def test_burst_passes_and_then_the_rate_applies():
    bucket = Bucket(per_second=10, burst=3)
    assert [bucket.take(100.0) for _ in range(5)] == pytest.approx([0, 0, 0, 0.1, 0.2])
    assert bucket.take(200.0) == 0


@given(st.lists(st.floats(0, 3), max_size=60), st.integers(1, 10))
def test_no_window_exceeds_burst_and_rate(gaps, burst):
    bucket, now, used = Bucket(per_second=5, burst=burst), 0.0, []
    for gap in gaps:
        now += gap
        used.append(now + bucket.take(now))
    for first, start in enumerate(used):
        for last, end in enumerate(used[first:], first):
            assert last - first + 1 <= burst + (end - start) * 5 + 1e-6


def test_token_is_granted_only_when_available():
    bucket = Bucket(per_second=1, burst=2)
    assert [bucket.allows(now) for now in (0.0, 0.0, 0.5, 1.5, 1.5)] == [True, True, False, True, False]


async def test_cancelled_wait_frees_its_slot():
    turnstile = Turnstile(Limits(in_flight=1))
    await turnstile.enter()
    waiting = asyncio.create_task(turnstile.enter())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    turnstile.leave()
    async with asyncio.timeout(5):
        await turnstile.enter()


def test_first_retry_is_immediate_and_then_delays_grow():
    backoff = RequestBackoff(jitter=lambda: 1.0)
    assert [round(backoff.next(), 3) for _ in range(8)] == [0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2]
    assert [backoff.next() for _ in range(8)][-2:] == [60, 60], "an API server in trouble gets a minute"
    backoff.reset()
    assert backoff.next() == 0


def test_delays_have_jitter():
    backoff = RequestBackoff(jitter=lambda: 0.0)
    assert [backoff.next(), backoff.next()] == [0, 0.025]


def test_two_clients_wait_for_different_times():
    """Without an argument there is jitter."""
    one, other = ([backoff.next() for _ in range(5)] for backoff in (RequestBackoff(), RequestBackoff()))
    assert one != other


def test_wish_of_the_server_is_kept_and_its_clients_spread_out():
    hasty, patient = RequestBackoff(jitter=lambda: 0.0), RequestBackoff(jitter=lambda: 1.0)
    assert (hasty.next(asked=4), patient.next(asked=4)) == (4, 6)
    assert hasty.next(asked=7200) == 60, "but not for hours"


@given(st.floats(0.1, 100))
def test_spread_stays_within_its_share(seconds):
    assert seconds * 0.899 <= spread(seconds, 0.1) <= seconds * 1.101
