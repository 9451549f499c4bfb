"""When pods are probed again, and which problems need a second probe."""

import pytest
from msgspec import structs

from support.builders.desired import desired_gateway
from varnish_gateway.api import Key
from varnish_gateway.emit.routing import content_hash
from varnish_gateway.operator.plan.gateway import DesiredGateway
from varnish_gateway.operator.status.readiness import Issues, PodReport, UnservedReport
from varnish_gateway.operator.status.tracker import (
    CONFIRM_SECONDS,
    FIRST_SECONDS,
    HOLD_SECONDS,
    LAST_SECONDS,
    SERVING_SECONDS,
    SILENT_SECONDS,
    STABLE_SECONDS,
    ProbeOutcome,
    ReadinessTracker,
    Situation,
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
    now: float = 0.0,
    was_programmed: bool = False,
) -> ProbeOutcome:
    expected = (desired or desired_gateway()).expected
    situation = Situation(expected, reports, SERVICE, Issues(faults), was_programmed=was_programmed)
    return tracker.on_reports(GATEWAY, situation, now)


def good(of: DesiredGateway) -> PodReport:
    sockets = tuple(f"{name}=:80" for name in of.own_sockets)
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
    assert probe(tracker, {"a": good(desired)}, desired=desired) == ProbeOutcome(True, SERVING_SECONDS)
    assert tracker.readiness[GATEWAY].is_serving


def test_gateway_without_pods_is_not_probed_again(tracker):
    assert probe(tracker, {}) == ProbeOutcome(True, None)


def test_problem_of_a_pod_is_published_once_a_second_probe_confirms_it(tracker):
    assert probe(tracker, {"a": BAD}) == ProbeOutcome(False, CONFIRM_SECONDS)
    assert GATEWAY not in tracker.readiness
    assert probe(tracker, {"a": BAD}).has_changed
    assert "semicolon" in tracker.readiness[GATEWAY].message


def test_confirmed_problem_needs_no_second_probe_when_its_message_changes(tracker):
    """Of many pods the message may name other ones each time."""
    reports = [{"a": f"no answer: {number}", "b": BAD} for number in range(4)]
    outcomes = [probe(tracker, report) for report in reports]
    assert [outcome.has_changed for outcome in outcomes] == [False, True, True, True]
    assert CONFIRM_SECONDS not in [outcome.next_probe for outcome in outcomes[1:]]
    assert tracker.readiness[GATEWAY].reason == "Invalid"


def test_problem_that_a_second_probe_does_not_find_is_not_published(tracker):
    desired = desired_gateway()
    probe(tracker, {"a": good(desired)}, desired=desired)
    assert not probe(tracker, {"a": BAD}, desired=desired).has_changed
    assert not probe(tracker, {"a": good(desired)}, desired=desired).has_changed
    assert probe(tracker, {"a": BAD}, desired=desired) == ProbeOutcome(False, CONFIRM_SECONDS), "it is a new one"


def test_rejected_object_is_published_without_a_second_probe(tracker):
    assert probe(tracker, {"a": BAD}, "Service: rejected").has_changed
    assert tracker.readiness[GATEWAY].message == "Service: rejected"


def test_deleted_gateway_starts_over_with_the_first_delay(tracker):
    probe(tracker, {"a": LATE})
    probe(tracker, {"a": BAD})
    tracker.forget(GATEWAY)
    assert probe(tracker, {"a": LATE}) == ProbeOutcome(True, FIRST_SECONDS)


@pytest.fixture
def desired() -> DesiredGateway:
    return desired_gateway()


@pytest.fixture
def serving(tracker: ReadinessTracker, desired: DesiredGateway) -> ReadinessTracker:
    """Give the tracker of a Gateway that is programmed."""
    probe(tracker, {"a": good(desired)}, desired=desired)
    return tracker


@pytest.mark.parametrize("other", [LATE, "no answer within 2 s"], ids=["late", "silent"])
def test_programmed_gateway_stays_so_while_a_pod_is_behind_for_a_moment(serving, desired, other):
    assert not probe(serving, {"a": other}, now=100.0).has_changed
    assert not probe(serving, {"a": other}, now=100.0 + HOLD_SECONDS - 1).has_changed
    assert serving.readiness[GATEWAY].is_serving
    assert not probe(serving, {"a": good(desired)}, desired=desired, now=110.0).has_changed
    assert not probe(serving, {"a": other}, now=115.0).has_changed, "a new moment"


def test_gateway_whose_pods_stay_behind_is_not_programmed(serving):
    probe(serving, {"a": LATE}, now=100.0)
    assert probe(serving, {"a": LATE}, now=100.0 + HOLD_SECONDS).has_changed
    assert not serving.readiness[GATEWAY].is_serving


def test_gateway_without_any_pod_is_not_programmed_at_once(serving):
    assert probe(serving, {}).has_changed
    assert not serving.readiness[GATEWAY].is_serving


def test_gateway_that_lost_programmed_regains_it_after_a_stable_time(serving, desired):
    for now in (100.0, 100.0 + HOLD_SECONDS):
        probe(serving, {"a": LATE}, now=now)
    pods = {"a": good(desired)}
    assert not probe(serving, pods, desired=desired, now=120.0).has_changed
    assert not probe(serving, {"a": LATE}, now=121.0).has_changed, "it is not stable"
    assert not probe(serving, pods, desired=desired, now=122.0).has_changed
    assert not serving.readiness[GATEWAY].is_serving
    assert probe(serving, pods, desired=desired, now=122.0 + STABLE_SECONDS).has_changed
    assert serving.readiness[GATEWAY].is_serving


def test_operator_that_starts_during_a_reload_leaves_the_stored_status(tracker):
    assert not probe(tracker, {"a": LATE}, was_programmed=True).has_changed
    assert GATEWAY not in tracker.readiness
    assert probe(tracker, {"a": LATE}, was_programmed=True, now=HOLD_SECONDS).has_changed


def test_new_listener_is_not_programmed_because_the_previous_ones_were(serving):
    serving.invalidate(GATEWAY)
    assert probe(serving, {"a": LATE}, was_programmed=True).has_changed
    assert not serving.readiness[GATEWAY].is_serving


def test_troubles_that_pods_report_reach_the_message_once_they_last(serving, desired):
    trouble = "namespace tea: EndpointSlice may not be watched: forbidden"
    pods = {"a": good(desired), "b": structs.replace(good(desired), troubles=(trouble, "another"))}
    assert probe(serving, pods, desired=desired, now=100.0) == ProbeOutcome(False, SILENT_SECONDS)
    assert probe(serving, pods, desired=desired, now=100.0 + HOLD_SECONDS).has_changed
    readiness = serving.readiness[GATEWAY]
    assert readiness.is_serving
    assert readiness.message == f"1 of 2 ready pods can't follow the cluster: b: {trouble}"
    assert probe(serving, {"a": good(desired)}, desired=desired, now=120.0).has_changed
    assert serving.readiness[GATEWAY].message == ""


def test_backends_that_cannot_have_endpoints_are_named_once_that_lasts(serving, desired):
    reason = "shop/web:80: no EndpointSlice has the label kubernetes.io/service-name: web"
    report = structs.replace(good(desired), unserved=UnservedReport(7000, (reason,)))
    pods = {"a": good(desired), "b": report}
    assert probe(serving, pods, desired=desired, now=100.0) == ProbeOutcome(False, SILENT_SECONDS)
    assert probe(serving, pods, desired=desired, now=100.0 + HOLD_SECONDS) == ProbeOutcome(True, SERVING_SECONDS)
    readiness = serving.readiness[GATEWAY]
    assert (readiness.is_serving, readiness.message) == (True, "")
    assert readiness.unserved == f"{reason}; and 6999 more"
    assert probe(serving, {"a": good(desired)}, desired=desired, now=120.0).has_changed
    assert serving.readiness[GATEWAY].unserved == ""


def test_hostile_pod_makes_no_long_message(serving, desired):
    report = structs.replace(good(desired), unserved=UnservedReport(3, ("x" * 900, "y" * 900, "z" * 900)))
    for now in (100.0, 100.0 + HOLD_SECONDS):
        probe(serving, {"a": report}, desired=desired, now=now)
    assert len(serving.readiness[GATEWAY].unserved) < 1000


LATER = frozenset({"http-8080"})


def probe_set(tracker, desired, *pods: tuple[str, ...], now: float = 0.0) -> ProbeOutcome:
    """Probe pods of a Gateway with a ListenerSet on port 8080, each with further sockets open."""
    expected = structs.replace(desired.expected, set_sockets=LATER)
    own = good(desired)
    reports = {f"pod-{number}": structs.replace(own, sockets=(*own.sockets, *more)) for number, more in enumerate(pods)}
    return tracker.on_reports(GATEWAY, Situation(expected, reports, SERVICE), now)


OPEN, CLOSED = ("http-8080=:8080",), ()


def test_new_port_of_a_listener_set_is_probed_soon_until_pods_have_opened_it(serving, desired):
    serving.hasten(GATEWAY)
    outcomes = [probe_set(serving, desired, CLOSED) for _ in range(9)]
    assert [outcome.next_probe for outcome in outcomes[:4]] == [FIRST_SECONDS, 0.2, 0.4, 0.8]
    assert outcomes[-1].next_probe == SILENT_SECONDS
    assert serving.readiness[GATEWAY].is_serving, "no Gateway waits for ports of ListenerSets"
    assert probe_set(serving, desired, OPEN) == ProbeOutcome(True, SERVING_SECONDS)
    assert serving.readiness[GATEWAY].open_sockets >= LATER


def test_new_pod_that_opens_a_port_in_a_moment_does_not_close_it_for_the_listener_set(tracker, desired):
    probe_set(tracker, desired, OPEN)
    assert probe_set(tracker, desired, OPEN, CLOSED, now=100.0) == ProbeOutcome(False, FIRST_SECONDS)
    assert tracker.readiness[GATEWAY].open_sockets >= LATER
    assert not probe_set(tracker, desired, OPEN, OPEN, now=101.0).has_changed


def test_port_that_stays_closed_in_a_pod_is_closed_for_the_listener_set(tracker, desired):
    probe_set(tracker, desired, OPEN)
    probe_set(tracker, desired, OPEN, CLOSED, now=100.0)
    assert not probe_set(tracker, desired, OPEN, CLOSED, now=100.0 + HOLD_SECONDS - 1).has_changed
    assert probe_set(tracker, desired, OPEN, CLOSED, now=100.0 + HOLD_SECONDS).has_changed
    assert not LATER & tracker.readiness[GATEWAY].open_sockets


def test_each_closure_of_a_port_is_a_moment_of_its_own(tracker, desired):
    probe_set(tracker, desired, OPEN)
    for now in (100.0, 120.0, 140.0):
        assert not probe_set(tracker, desired, CLOSED, now=now).has_changed
        assert not probe_set(tracker, desired, OPEN, now=now + 1).has_changed
