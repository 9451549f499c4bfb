"""When pods are asked again, and what is believed at once."""

from types import SimpleNamespace

import pytest

from support.builders.plans import plan
from varnish_gateway.api import Key
from varnish_gateway.emit.routing import content_hash
from varnish_gateway.operator.observe.pods import Report
from varnish_gateway.operator.status.prober import (
    FIRST_SECONDS,
    LAST_SECONDS,
    SETTLED_SECONDS,
    SILENT_SECONDS,
    SUSPICION_SECONDS,
    Prober,
)

GATEWAY = Key("Gateway", "shop", "gw")
SERVICE = {"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}
BAD = Report(generation="1", sockets=("http-80=:80",), problems=("VCL: a semicolon is missing",))
LATE = Report(generation="0", sockets=("http-80=:80",))


@pytest.fixture
def verdicts():
    return {}


@pytest.fixture
def prober(verdicts):
    service = SimpleNamespace(document=SERVICE)
    sources = SimpleNamespace(pods={}, live={Key("Service", "shop", "gw"): service})
    return Prober(sources, SimpleNamespace(), verdicts)


def good(of):
    sockets = tuple(f"{name}=:80" for name in of.sockets)
    generation, vcl = str(of.gateway.metadata.generation), content_hash(of.vcl.encode())
    return Report(generation=generation, sockets=sockets, vcl=vcl, up_to_date=True)


def test_pods_that_are_late_are_asked_ever_less_often_until_something_happens(prober):
    asked = [prober.judge(GATEWAY, plan(), {"a": LATE}, ()) for _ in range(7)]
    assert [probe.is_news for probe in asked] == [True] + [False] * 6
    assert [probe.again for probe in asked] == [FIRST_SECONDS, 0.2, 0.4, 0.8, 1.6, LAST_SECONDS, LAST_SECONDS]
    prober.hurry(GATEWAY)
    assert prober.judge(GATEWAY, plan(), {"a": LATE}, ()).again == FIRST_SECONDS


def test_pods_that_are_silent_are_asked_even_less_often(prober):
    asked = [prober.judge(GATEWAY, plan(), {"a": LATE, "b": "no answer within 2 s"}, ()) for _ in range(9)]
    assert [probe.again for probe in asked[5:]] == [3.2, 6.4, SILENT_SECONDS, SILENT_SECONDS]
    assert prober.judge(GATEWAY, plan(), {"a": LATE}, ()).again == LAST_SECONDS


def test_pods_that_serve_are_asked_now_and_then(prober, verdicts):
    made = plan()
    assert prober.judge(GATEWAY, made, {"a": good(made)}, ()) == (True, SETTLED_SECONDS)
    assert verdicts[GATEWAY].served


def test_without_pods_there_is_nobody_to_ask(prober):
    assert prober.judge(GATEWAY, plan(), {}, ()) == (True, None)


def test_a_problem_of_a_pod_is_told_if_it_is_still_there_a_moment_later(prober, verdicts):
    assert prober.judge(GATEWAY, plan(), {"a": BAD}, ()) == (False, SUSPICION_SECONDS)
    assert GATEWAY not in verdicts
    assert prober.judge(GATEWAY, plan(), {"a": BAD}, ()).is_news
    assert "semicolon" in verdicts[GATEWAY].message


def test_a_problem_that_is_told_in_other_words_is_still_the_same(prober, verdicts):
    """Of many pods another one may be named each time."""
    reports = [{"a": BAD, "b": f"no answer: {number}"} for number in range(4)]
    asked = [prober.judge(GATEWAY, plan(), report, ()) for report in reports]
    assert [probe.is_news for probe in asked] == [False, True, True, True]
    assert SUSPICION_SECONDS not in [probe.again for probe in asked[1:]]
    assert verdicts[GATEWAY].reason == "Invalid"


def test_a_problem_that_passes_is_never_told(prober):
    made = plan()
    prober.judge(GATEWAY, made, {"a": good(made)}, ())
    assert not prober.judge(GATEWAY, made, {"a": BAD}, ()).is_news
    assert not prober.judge(GATEWAY, made, {"a": good(made)}, ()).is_news
    assert prober.judge(GATEWAY, made, {"a": BAD}, ()) == (False, SUSPICION_SECONDS), "it is a new one"


def test_faults_of_our_own_are_told_at_once(prober, verdicts):
    assert prober.judge(GATEWAY, plan(), {"a": BAD}, ("Service: refused",)).is_news
    assert verdicts[GATEWAY].message == "Service: refused"


def test_nothing_is_left_of_a_gateway_that_is_gone(prober):
    prober.judge(GATEWAY, plan(), {"a": LATE}, ())
    prober.judge(GATEWAY, plan(), {"a": BAD}, ())
    prober.forget(GATEWAY)
    assert prober.judge(GATEWAY, plan(), {"a": LATE}, ()) == (True, FIRST_SECONDS)
