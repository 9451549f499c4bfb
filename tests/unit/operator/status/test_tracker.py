"""When pods are probed again, and which problems need a second probe."""

from types import SimpleNamespace

import pytest

from support.builders.desired import desired_gateway
from varnish_gateway.api import Key
from varnish_gateway.emit.routing import content_hash
from varnish_gateway.operator.plan.gateway import DesiredGateway
from varnish_gateway.operator.status.readiness import Issues, PodReport
from varnish_gateway.operator.status.tracker import (
    CONFIRM_SECONDS,
    FIRST_SECONDS,
    LAST_SECONDS,
    SERVING_SECONDS,
    SILENT_SECONDS,
    ProbeOutcome,
    ReadinessTracker,
)

GATEWAY = Key("Gateway", "shop", "gw")
SERVICE = {"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}
BAD = PodReport(generation="1", sockets=("http-80=:80",), problems=("VCL: a semicolon is missing",))
LATE = PodReport(generation="0", sockets=("http-80=:80",))


@pytest.fixture
def tracker() -> ReadinessTracker:
    return ReadinessTracker()


def probe(
    tracker: ReadinessTracker,
    reports: dict[str, PodReport | str],
    *faults: str,
    desired: DesiredGateway | None = None,
) -> ProbeOutcome:
    service = SimpleNamespace(document=SERVICE)
    return tracker.on_reports(GATEWAY, (desired or desired_gateway()).expected, reports, service, Issues(faults))


def good(of: DesiredGateway) -> PodReport:
    sockets = tuple(f"{name}=:80" for name in of.sockets)
    generation, vcl = str(of.gateway.metadata.generation), content_hash(of.vcl.encode())
    return PodReport(generation=generation, sockets=sockets, vcl=vcl, up_to_date=True)


def test_late_pods_are_probed_less_and_less_often_until_a_change(tracker):
    outcomes = [probe(tracker, {"a": LATE}) for _ in range(7)]
    assert [outcome.has_changed for outcome in outcomes] == [True] + [False] * 6
    assert [outcome.next_probe for outcome in outcomes] == [
        FIRST_SECONDS,
        0.2,
        0.4,
        0.8,
        1.6,
        LAST_SECONDS,
        LAST_SECONDS,
    ]
    tracker.hasten(GATEWAY)
    assert probe(tracker, {"a": LATE}).next_probe == FIRST_SECONDS


def test_silent_pods_are_probed_even_less_often(tracker):
    outcomes = [probe(tracker, {"a": LATE, "b": "no answer within 2 s"}) for _ in range(9)]
    assert [outcome.next_probe for outcome in outcomes[5:]] == [3.2, 6.4, SILENT_SECONDS, SILENT_SECONDS]
    assert probe(tracker, {"a": LATE}).next_probe == LAST_SECONDS


def test_pod_that_falls_silent_is_not_left_alone_for_the_longest_time_at_once(tracker):
    for _ in range(20):
        probe(tracker, {"a": LATE})
    outcomes = [probe(tracker, {"a": "no answer within 2 s"}) for _ in range(3)]
    assert [outcome.next_probe for outcome in outcomes] == [2 * LAST_SECONDS, 4 * LAST_SECONDS, SILENT_SECONDS]


def test_serving_pods_are_probed_at_long_intervals(tracker):
    desired = desired_gateway()
    assert probe(tracker, {"a": good(desired)}, desired=desired) == (True, SERVING_SECONDS)
    assert tracker.readiness[GATEWAY].is_serving


def test_gateway_without_pods_is_not_probed_again(tracker):
    assert probe(tracker, {}) == (True, None)


def test_problem_of_a_pod_is_published_once_a_second_probe_confirms_it(tracker):
    assert probe(tracker, {"a": BAD}) == (False, CONFIRM_SECONDS)
    assert GATEWAY not in tracker.readiness
    assert probe(tracker, {"a": BAD}).has_changed
    assert "semicolon" in tracker.readiness[GATEWAY].message


def test_confirmed_problem_needs_no_second_probe_when_its_message_changes(tracker):
    """Of many pods the message may name other ones each time."""
    reports = [{"a": BAD, "b": f"no answer: {number}"} for number in range(4)]
    outcomes = [probe(tracker, report) for report in reports]
    assert [outcome.has_changed for outcome in outcomes] == [False, True, True, True]
    assert CONFIRM_SECONDS not in [outcome.next_probe for outcome in outcomes[1:]]
    assert tracker.readiness[GATEWAY].reason == "Invalid"


def test_problem_that_a_second_probe_does_not_find_is_not_published(tracker):
    desired = desired_gateway()
    probe(tracker, {"a": good(desired)}, desired=desired)
    assert not probe(tracker, {"a": BAD}, desired=desired).has_changed
    assert not probe(tracker, {"a": good(desired)}, desired=desired).has_changed
    assert probe(tracker, {"a": BAD}, desired=desired) == (False, CONFIRM_SECONDS), "it is a new one"


def test_rejected_object_is_published_without_a_second_probe(tracker):
    assert probe(tracker, {"a": BAD}, "Service: rejected").has_changed
    assert tracker.readiness[GATEWAY].message == "Service: rejected"


def test_deleted_gateway_starts_over_with_the_first_delay(tracker):
    probe(tracker, {"a": LATE})
    probe(tracker, {"a": BAD})
    tracker.forget(GATEWAY)
    assert probe(tracker, {"a": LATE}) == (True, FIRST_SECONDS)
