import itertools

from varnish_gateway.dataplane.tls.budget import AT_ONCE, ReloadBudget
from varnish_gateway.emit import haproxy

FINISH = 600.0


def test_a_few_reloads_follow_at_once_and_the_next_one_waits():
    budget = ReloadBudget(FINISH)
    for _ in range(AT_ONCE):
        assert budget.wait(10.0) == 0
        budget.spend(10.0)
    assert budget.wait(10.0) == 150
    assert budget.wait(100.0) == 60
    assert budget.wait(160.0) == 0


def test_reloads_as_soon_as_they_may_never_exceed_the_workers_that_haproxy_keeps():
    budget, now, times = ReloadBudget(FINISH), 0.0, []
    for _ in range(50):
        now += budget.wait(now)
        budget.spend(now)
        times.append(now)
    for first, later in itertools.combinations(range(50), 2):
        if times[later] - times[first] < FINISH:
            assert later - first <= haproxy.MOST_FORMER_WORKERS


def test_the_whole_budget_comes_back():
    budget = ReloadBudget(FINISH)
    for _ in range(AT_ONCE):
        budget.spend(0.0)
    for _ in range(AT_ONCE):
        assert budget.wait(FINISH) == 0
        budget.spend(FINISH)


def test_reloads_that_may_not_wait_make_no_debt():
    budget = ReloadBudget(FINISH)
    for _ in range(100):
        budget.spend(0.0)
    assert budget.wait(0.0) == 150
