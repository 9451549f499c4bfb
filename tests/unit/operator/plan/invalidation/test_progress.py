"""How one invalidation comes to its end, with pods that answer, restart, go and stay silent."""

import json
from datetime import UTC, datetime

import msgspec
from msgspec import UNSET, structs

from varnish_gateway import api
from varnish_gateway.api import Key
from varnish_gateway.operator.observe.pods import GatewayPod
from varnish_gateway.operator.plan.invalidation.progress import END_SECONDS, LATE_SECONDS, Progress, Round
from varnish_gateway.operator.status.answers import InvalidationAnswer
from varnish_gateway.translate.invalidation.request import RequestFault, request_of
from varnish_gateway.translate.invalidation.summary import MOST_PODS

GATEWAY = Key("Gateway", "infra", "gw")
CREATED = datetime(2026, 1, 1, tzinfo=UTC)
NOW = CREATED.timestamp() + 2
SILENT = InvalidationAnswer(None, "no answer in time")


def invalidation(generation: int = 1, **spec) -> api.VarnishCacheInvalidation:
    document = {
        "metadata": {
            "name": "i",
            "namespace": "infra",
            "uid": "u",
            "generation": generation,
            "creationTimestamp": CREATED.isoformat(),
        },
        "spec": {"gatewayRef": {"name": "gw"}, **(spec or {"hostname": "a.example", "paths": ["/x", "/y"]})},
    }
    return msgspec.convert(document, api.VarnishCacheInvalidation)


def pod(name: str, started: float = -3600.0, **more) -> GatewayPod:
    """Return a pod that started so many seconds after the invalidation was created."""
    values = {"gateway": GATEWAY, "address": "192.0.2.1", "is_ready": True, "started": CREATED.timestamp() + started}
    return GatewayPod(name, **values | more)


class Case:
    """One invalidation and the pods of its Gateway; pods answer with ``answers``, others with one object per path."""

    def __init__(self, *pods: GatewayPod, obj: api.VarnishCacheInvalidation | None = None, stored: bytes = b"") -> None:
        self.pods = list(pods)
        self.answers: dict[str, InvalidationAnswer] = {}
        self.progress = Progress(obj or invalidation(), stored)
        self.sent: list[str] = []

    def round(self, at: float = NOW, *, pods_after: list[GatewayPod] | None = None) -> float | None:
        request = request_of(self.progress.obj, ())
        asked = self.progress.to_send(self.pods)
        self.sent = [one.name for one in asked]
        counts = InvalidationAnswer((1,) * len(request.targets))
        answers = {one.name: self.answers.get(one.name, counts) for one in asked}
        self.pods = self.pods if pods_after is None else pods_after
        return self.progress.update(Round(self.progress.obj, request, asked), answers, self.pods, at)

    @property
    def phase(self) -> str:
        return self.progress.status.phase

    def reasons(self) -> dict[str, str]:
        return {one.pod_name: one.reason for one in self.progress.status.pod_results}

    def condition(self, type_: str) -> tuple[str, str, str]:
        (found,) = (one for one in self.progress.status.conditions if one.type == type_)
        return found.status, found.reason, found.message


def test_invalidation_is_complete_once_every_pod_has_confirmed_with_counts():
    case = Case(pod("a"), pod("b"))
    assert (case.phase, case.condition("Accepted")[0]) == ("Pending", "Unknown")
    case.answers["b"] = InvalidationAnswer((0, 7))
    assert case.round() == 3600.0, "it is looked at again when its ttl has passed"
    status = case.progress.status
    assert (status.phase, status.objects, status.observed_generation) == ("Complete", 9, 1)
    assert [(one.path, one.objects) for one in status.pod_results[1].path_results] == [("/x", 0), ("/y", 7)]
    assert case.condition("Complete") == ("True", "Complete", "9 objects; confirmed by 2 pods")
    assert case.progress.expiry == NOW + 3600


def test_silent_pod_is_asked_again_alone_and_the_phase_ends_in_time():
    case = Case(pod("a"), pod("b"))
    case.answers["b"] = SILENT
    assert case.round() < 1
    assert (case.phase, case.sent) == ("InProgress", ["a", "b"])
    case.round(NOW + END_SECONDS - 1)
    assert (case.phase, case.sent) == ("InProgress", ["b"])
    assert case.round(NOW + END_SECONDS) == LATE_SECONDS
    assert case.phase == "Failed"
    status, reason, message = case.condition("Complete")
    assert (status, reason) == ("False", "NotConfirmed")
    assert "not confirmed by b;" in message
    assert case.reasons() == {"a": "Confirmed", "b": "Unanswered"}


def test_pod_that_answers_after_the_end_gets_it_and_makes_the_phase_complete():
    case = Case(pod("a"))
    case.answers["a"] = SILENT
    case.round()
    case.round(NOW + END_SECONDS)
    assert (case.phase, case.progress.is_settled) == ("Failed", False)
    del case.answers["a"]
    case.round(NOW + END_SECONDS + 60)
    assert (case.phase, case.progress.is_settled, case.sent) == ("Complete", True, ["a"])
    assert case.progress.expiry == NOW + END_SECONDS + 3600, "its ttl counts from its first end"


def test_pod_that_goes_before_it_confirms_is_accounted_for():
    case = Case(pod("a"), pod("b"))
    case.answers["b"] = SILENT
    case.round()
    case.round(pods_after=[pod("a")])
    assert case.phase == "Complete"
    assert case.reasons() == {"a": "Confirmed", "b": "Gone"}


def test_pod_whose_gateway_restarted_or_does_not_run_holds_nothing_and_says_so():
    case = Case(pod("new", 61.0), pod("down", is_running=False), pod("old"))
    case.round()
    assert (case.phase, case.sent) == ("Complete", ["old"])
    assert case.reasons() == {"down": "Empty", "new": "Empty", "old": "Confirmed"}


def test_pod_that_may_be_older_is_sent_to_whatever_its_clock_says():
    case = Case(pod("near", 59.0), structs.replace(pod("u"), started=None))
    case.round()
    assert case.sent == ["near", "u"]
    edited = Case(pod("a", 3600.0), obj=invalidation(generation=2))
    edited.round(NOW + 7200)
    assert edited.sent == ["a"], "when the spec was edited is not known"


def test_pod_that_joins_during_a_round_is_asked_in_the_next_one():
    case = Case(pod("a"))
    case.round(pods_after=[pod("a"), pod("b")])
    assert case.phase == "InProgress"
    case.round()
    assert (case.phase, case.sent) == ("Complete", ["b"])


def test_pod_that_was_reported_too_late_gets_it_after_the_end():
    case = Case(pod("a"))
    case.round()
    case.pods += [pod("late", -5.0), pod("new", 1800.0), pod("down", is_running=False)]
    case.round(NOW + 30)
    assert (case.phase, case.sent) == ("Complete", ["late"])
    assert case.reasons() == {"a": "Confirmed", "late": "Confirmed"}
    assert case.progress.expiry == NOW + 3600
    case.round(NOW + 31)
    assert case.sent == []


def test_pod_that_was_reported_too_late_and_is_silent_makes_the_phase_failed():
    case = Case(pod("a"))
    case.round()
    case.pods.append(pod("late", -5.0))
    case.answers["late"] = SILENT
    case.round(NOW + 30)
    assert (case.phase, case.progress.is_settled) == ("Failed", False)


def test_pod_that_starts_after_the_end_of_an_edited_one_is_not_asked():
    case = Case(pod("a"), obj=invalidation(generation=2))
    case.round()
    case.pods.append(pod("new", 1800.0))
    case.round(NOW + 1810)
    assert (case.phase, case.sent) == ("Complete", [])


def test_rejection_by_a_pod_ends_it_with_the_reason_of_the_pod():
    case = Case(pod("a"))
    case.answers["a"] = InvalidationAnswer(None, "targets[0].matching.pattern: unclosed group", is_rejection=True)
    case.round()
    assert (case.phase, case.progress.is_settled) == ("Failed", True)
    assert case.condition("Accepted") == ("False", "Invalid", "targets[0].matching.pattern: unclosed group")


def test_wrong_number_of_counts_is_no_confirmation():
    case = Case(pod("a"))
    case.answers["a"] = InvalidationAnswer((1,))
    case.round()
    assert (case.phase, case.reasons()) == ("InProgress", {"a": "Unanswered"})


def test_gateway_without_pods_stores_nothing():
    case = Case()
    case.round()
    assert case.condition("Complete") == ("True", "Complete", "the Gateway has no pod, so nothing is stored")


def test_missing_gateway_is_waited_for_and_then_named():
    progress = Progress(invalidation(), b"")
    progress.update(Round(progress.obj, None), {}, [], NOW)
    assert progress.status.phase == "Pending"
    progress.update(Round(progress.obj, None), {}, [], NOW + END_SECONDS)
    assert (progress.status.phase, progress.is_settled) == ("Failed", True)
    assert progress.status.conditions[0].reason == "GatewayNotFound"


def test_restriction_by_namespace_is_a_condition_that_a_restart_keeps():
    case = Case(pod("a"))
    request = structs.replace(request_of(case.progress.obj, ()), restriction="only shop/web")
    case.progress.update(Round(case.progress.obj, request, ()), {"a": SILENT}, case.pods, NOW)
    assert case.condition("Restricted") == ("True", "OtherNamespace", "only shop/web")
    assert restarted(case).condition("Restricted") == case.condition("Restricted")
    unrestricted = Case(pod("a"))
    unrestricted.round()
    assert [one.type for one in unrestricted.progress.status.conditions] == ["Accepted", "Complete"]


def test_fault_of_the_request_ends_it():
    progress = Progress(invalidation(), b"")
    progress.update(Round(progress.obj, RequestFault("NoRoutes", "m")), {}, [], NOW)
    assert (progress.status.phase, progress.status.conditions[0].reason) == ("Failed", "NoRoutes")


def restarted(case: Case, obj: api.VarnishCacheInvalidation | None = None) -> Case:
    """Return what an operator goes on from that reads the stored status."""
    after = Case(*case.pods, obj=obj, stored=msgspec.json.encode(case.progress.status))
    after.answers = case.answers
    return after


def test_operator_that_restarts_sends_only_to_pods_that_have_not_confirmed():
    case = Case(pod("a"), pod("b"))
    case.answers["b"] = SILENT
    case.round()
    after = restarted(case)
    assert after.progress.status == case.progress.status
    del after.answers["b"]
    after.round(NOW + 5)
    assert (after.phase, after.sent, after.progress.status.objects) == ("Complete", ["b"], 4)
    again = restarted(after)
    again.round(NOW + 9)
    assert (again.sent, again.progress.expiry) == ([], NOW + 5 + 3600)


def test_deadline_counts_from_the_first_round_also_after_a_restart():
    case = Case(pod("a"))
    case.answers["a"] = SILENT
    case.round()
    after = restarted(case)
    after.round(NOW + END_SECONDS)
    assert after.phase == "Failed"
    assert restarted(after).progress.is_settled is False


def test_edited_spec_is_carried_out_again():
    case = Case(pod("a"))
    case.round()
    after = restarted(case, invalidation(generation=2))
    assert after.phase == "Pending"
    after.round(NOW + 60)
    assert (after.phase, after.sent) == ("Complete", ["a"])


def test_stored_status_of_somebody_else_is_not_trusted():
    for stored in (
        b"null",
        b"{",
        b'{"phase": "Complete"}',
        b'{"phase": "Complete", "observedGeneration": 1, "conditions": []}',
    ):
        assert Progress(invalidation(), stored).status.phase == "Pending"


def test_status_stays_small_with_many_pods_and_paths():
    obj = invalidation(hostname="a.example", paths=[f"/{number:0500}" for number in range(1000)])
    case = Case(*(pod(f"p{number:03}") for number in range(MOST_PODS + 50)), obj=obj)
    case.answers["p249"] = SILENT
    case.round()
    status = case.progress.status
    assert len(json.dumps(msgspec.to_builtins(status))) < 100_000
    assert (status.pod_results[0].pod_name, len(status.pod_results)) == ("p249", MOST_PODS)
    assert all(one.path_results is UNSET for one in status.pod_results)
    assert status.objects == 249_000


def test_unreadable_ttl_counts_as_the_default():
    case = Case(pod("a"), obj=invalidation(everything=True, ttl="soon"))
    case.round()
    assert case.progress.expiry == NOW + 3600
    brief = Case(pod("a"), obj=invalidation(everything=True, ttl="1.5s"))
    brief.round()
    assert brief.progress.expiry == NOW + 1.5
