from varnish_gateway.runtime.backoff import Backoff


def delays(backoff: Backoff, count: int) -> list[float]:
    return [backoff.next() for _ in range(count)]


def test_delays_double_from_first_to_last() -> None:
    assert delays(Backoff(0.1, 0.5), 5) == [0.1, 0.2, 0.4, 0.5, 0.5]


def test_factor_sets_the_growth() -> None:
    assert delays(Backoff(1, 100, factor=10), 4) == [1, 10, 100, 100]


def test_reset_starts_over_with_the_first_delay() -> None:
    backoff = Backoff(1, 8)
    delays(backoff, 3)
    backoff.reset()
    assert delays(backoff, 2) == [1, 2]


def test_attempts_count_delays_since_the_reset() -> None:
    backoff = Backoff(1, 8)
    delays(backoff, 3)
    assert backoff.attempts == 3
    backoff.reset()
    assert backoff.attempts == 0


def test_jitter_shortens_a_delay_to_half_at_most_and_leaves_the_growth_alone() -> None:
    chances = iter([0.0, 1.0, 0.5])
    assert delays(Backoff(1, 8, jitter=lambda: next(chances)), 3) == [0.5, 2.0, 3.0]


def test_first_delay_above_the_last_is_cut() -> None:
    assert delays(Backoff(10, 4), 2) == [4, 4]


def test_many_attempts_stay_at_the_last_delay() -> None:
    backoff = Backoff(0.1, 5)
    delays(backoff, 10_000)
    assert backoff.next() == 5


def test_limit_of_one_delay_limits_the_growth_too() -> None:
    backoff = Backoff(1.0, 10.0)
    assert [backoff.next(most=3.0) for _ in range(4)] == [1.0, 2.0, 3.0, 3.0]
    assert [backoff.next() for _ in range(2)] == [6.0, 10.0]


def test_delay_that_was_asked_for_is_kept_spread_out_and_limited() -> None:
    assert Backoff(1, 60).next(asked=20) == 20
    assert Backoff(1, 60, jitter=lambda: 1.0).next(asked=20) == 30
    assert Backoff(30, 60).next(asked=20) == 30
    assert Backoff(1, 60).next(asked=7200) == 60
