"""When a pod is accounted for."""

import pytest

from varnish_gateway.api import Key
from varnish_gateway.operator.observe.pods import GatewayPod
from varnish_gateway.operator.plan.invalidation.accounting import SKEW_SECONDS, PodAccounts
from varnish_gateway.operator.status.answers import InvalidationAnswer

NOW = 1_000_000.0
SILENT = InvalidationAnswer(None, "no answer in time")


def pod(name: str = "a", **more) -> GatewayPod:
    return GatewayPod(name, Key("Gateway", "shop", "web"), "192.0.2.1", is_ready=True, **more)


def reason(accounts: PodAccounts, name: str = "a") -> tuple[str, bool]:
    return accounts.results[name].reason, accounts.results[name].success


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (InvalidationAnswer((2, 3)), ("Confirmed", True)),
        (InvalidationAnswer((5,)), ("Unanswered", False)),
        (SILENT, ("Unanswered", False)),
        (InvalidationAnswer(None, "wrong", is_rejection=True), ("Rejected", False)),
    ],
    ids=["counts", "too few counts", "silent", "rejection"],
)
def test_pod_is_accounted_for_by_its_answer(answer, expected):
    accounts = PodAccounts(NOW)
    accounts.update(pod(), 2, answer, NOW)
    assert reason(accounts) == expected
    assert bool(accounts.open([pod()])) != expected[1]
    assert accounts.objects == (5 if expected[1] else 0)


def test_pod_without_an_answer_stays_open_unless_it_holds_nothing():
    accounts = PodAccounts(NOW)
    waiting, stopped = pod("a"), pod("b", is_running=False)
    later, within_skew = pod("c", started=NOW + SKEW_SECONDS + 1), pod("d", started=NOW + SKEW_SECONDS - 1)
    for one in (waiting, stopped, later, within_skew):
        accounts.update(one, 1, None, NOW)
    assert {name: one.reason for name, one in accounts.results.items()} == {"b": "Empty", "c": "Empty"}
    assert accounts.open([waiting, stopped, later, within_skew]) == [waiting, within_skew]


def test_pod_that_has_confirmed_stays_confirmed_when_it_is_gone():
    accounts = PodAccounts(NOW)
    accounts.update(pod("a"), 1, InvalidationAnswer((1,)), NOW)
    accounts.update(pod("b"), 1, SILENT, NOW)
    accounts.on_pods([], NOW)
    assert [reason(accounts, name) for name in "ab"] == [("Confirmed", True), ("Gone", True)]
    assert str(accounts) == "1 objects; confirmed by 1 pods, gone: 1 pods"
