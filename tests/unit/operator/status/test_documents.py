"""Status documents: no needless write, no entry of another controller changed."""

import json

import pytest
from msgspec import structs

from varnish_gateway import ir
from varnish_gateway.api import Key
from varnish_gateway.ir import (
    AncestorStatus,
    Condition,
    GatewayClassStatus,
    GatewayStatus,
    ListenerSetStatus,
    ListenerStatus,
    ParentRef,
    ParentStatus,
    PolicyStatus,
    RouteKind,
    RouteStatus,
    StatusAddress,
)
from varnish_gateway.operator.status.documents import (
    AFFECTED,
    MOST_CONDITIONS,
    ONLY_TRUE,
    SHARED,
    applied_status,
    faults,
    needs_waiting_status,
    shared_status,
)
from varnish_gateway.translate.conditions import keys_copied

EARLIER, NOW = "2026-01-01T00:00:00Z", "2026-02-02T00:00:00Z"
OURS = "varnish-software.com/gateway"
KINDS = (RouteKind("gateway.networking.k8s.io", "HTTPRoute"),)


def accepted(status: str = "True", message: str = "", generation: int = 1) -> Condition:
    return Condition("Accepted", status, "Accepted" if status == "True" else "Invalid", message, generation)


def gateway(*, routes: int = 0, status: str = "True", message: str = "") -> GatewayStatus:
    return GatewayStatus(
        addresses=(StatusAddress("IPAddress", "192.0.2.1"),),
        conditions=(accepted(status, message),),
        listeners=(ListenerStatus("http", KINDS, routes, (accepted(status),)),),
    )


def stored(document: dict | None) -> bytes:
    return json.dumps(document).encode()


def route(*gateways: str, status: str = "True") -> RouteStatus:
    return RouteStatus(
        tuple(
            ParentStatus(ParentRef("gateway.networking.k8s.io", "Gateway", name), OURS, (accepted(status),))
            for name in gateways
        )
    )


def is_ours(entry: dict) -> bool:
    return entry["controllerName"] == OURS


def route_status(desired: RouteStatus | None, found: bytes, is_ours, now: str) -> dict | None:
    return shared_status(SHARED["HTTPRoute"], desired, found, is_ours, now)


FOREIGN = {"parentRef": {"name": "theirs"}, "controllerName": "example.com/other", "conditions": [{"x": "as it is"}]}


def test_first_status_has_the_current_transition_time():
    written = applied_status(gateway(), b"null", NOW)
    assert written["conditions"][0]["lastTransitionTime"] == NOW
    assert written["listeners"][0]["conditions"][0]["lastTransitionTime"] == NOW


def test_stored_status_is_not_written_again():
    assert applied_status(gateway(), stored(applied_status(gateway(), b"", EARLIER)), NOW) is None


@pytest.mark.parametrize(
    "other", [gateway(routes=1), gateway(message="new"), gateway(status="False"), GatewayStatus((), (accepted(),), ())]
)
def test_status_that_differs_is_written(other):
    assert applied_status(other, stored(applied_status(gateway(), b"", EARLIER)), NOW) is not None


def test_only_a_transition_changes_the_transition_time():
    found = stored(applied_status(gateway(), b"", EARLIER))
    changed = applied_status(gateway(status="False"), found, NOW)
    same = applied_status(gateway(message="other words"), found, NOW)
    assert changed["conditions"][0]["lastTransitionTime"] == NOW
    assert same["conditions"][0]["lastTransitionTime"] == EARLIER


def test_conditions_of_other_controllers_are_ignored():
    found = applied_status(gateway(), b"", EARLIER)
    found["conditions"].append({"type": "example.com/Theirs", "status": "True"})
    assert applied_status(gateway(), stored(found), NOW) is None


def crowded(*foreign: str) -> tuple[GatewayStatus, dict]:
    """Return a status with eight conditions of ours, and the stored one with those of other controllers."""
    full = gateway()
    notices = tuple(Condition(one, "True", "Reason", "", 1) for one in sorted(ONLY_TRUE - {"OverlappingTLSConfig"}))
    needed = (accepted(), Condition("Programmed", "True", "Programmed", "", 1))
    full = structs.replace(full, conditions=(*needed, *notices))
    assert len(full.conditions) == MOST_CONDITIONS
    found = applied_status(full, b"", EARLIER)
    assert len(found["conditions"]) == MOST_CONDITIONS
    theirs = [{"type": one, "status": "True", "lastTransitionTime": EARLIER} for one in foreign]
    return full, {**found, "conditions": [*found["conditions"], *theirs]}


def test_notices_give_way_to_conditions_of_other_controllers():
    """Otherwise the API server would reject every status."""
    full, found = crowded("example.com/A", "example.com/B")
    del found["conditions"][2:4]  # the API server had room for two fewer of ours
    written = applied_status(full, stored({**found, "listeners": []}), NOW)
    types = [one["type"] for one in written["conditions"]]
    assert len(types) == MOST_CONDITIONS - 2
    assert types[:2] == ["Accepted", "Programmed"]
    assert "InsecureFrontendValidationMode" in types
    assert not {AFFECTED, "UnsupportedFields"} & set(types)
    merged = [*written["conditions"], *found["conditions"][-2:]]
    assert applied_status(full, stored({**written, "conditions": merged}), NOW) is None, "it is stable"


def test_conditions_that_are_no_notices_never_give_way():
    full, found = crowded(*(f"example.com/{number}" for number in range(8)))
    written = applied_status(full, stored(found), NOW)
    assert [one["type"] for one in written["conditions"]] == ["Accepted", "Programmed"]


def test_deleted_listener_is_removed_from_the_status():
    found = applied_status(gateway(), b"", EARLIER)
    found["listeners"].append({**found["listeners"][0], "name": "old"})
    assert applied_status(gateway(), stored(found), NOW) is not None


def test_changed_features_of_a_class_are_written():
    one, two = ({"name": "A"},), ({"name": "A"}, {"name": "B"})
    found = stored(applied_status(GatewayClassStatus((accepted(),), one), b"", EARLIER))
    assert applied_status(GatewayClassStatus((accepted(),), one), found, NOW) is None
    assert applied_status(GatewayClassStatus((accepted(),), two), found, NOW) is not None


def test_parent_entries_of_other_controllers_are_kept():
    written = route_status(route("ours"), stored({"parents": [FOREIGN]}), is_ours, NOW)
    assert written["parents"][0] == FOREIGN
    assert written["parents"][1]["parentRef"]["name"] == "ours"


def test_stored_route_status_is_not_written_again():
    found = stored({"parents": [FOREIGN, *route_status(route("ours"), b"", is_ours, EARLIER)["parents"]]})
    assert route_status(route("ours"), found, is_ours, NOW) is None


def test_conditions_of_other_controllers_in_our_entry_are_kept():
    theirs = {"type": "special.io/SomeField", "status": "False", "reason": "Theirs", "message": "", "x": "as it is"}
    (entry,) = route_status(route("ours"), b"", is_ours, EARLIER)["parents"]
    partly = {"type": "PartiallyInvalid", "status": "True", "reason": "UnsupportedValue", "message": "was"}
    found = {"parents": [{**entry, "conditions": [theirs, *entry["conditions"], partly]}]}
    written = route_status(route("ours"), stored(found), is_ours, NOW)
    assert written["parents"][0]["conditions"] == [*entry["conditions"], theirs], (
        "ours, without conditions that no longer hold"
    )
    assert route_status(route("ours"), stored(written), is_ours, NOW) is None


def test_our_entries_of_detached_parents_are_removed():
    found = {"parents": [*route_status(route("a", "b"), b"", is_ours, EARLIER)["parents"], FOREIGN]}
    written = route_status(route("b"), stored(found), is_ours, NOW)
    assert [entry["parentRef"]["name"] for entry in written["parents"]] == ["theirs", "b"]
    assert written["parents"][1]["conditions"][0]["lastTransitionTime"] == EARLIER
    assert route_status(None, stored(found), is_ours, NOW) == {"parents": [FOREIGN]}
    assert route_status(None, stored({"parents": [FOREIGN]}), is_ours, NOW) is None


def policy(*gateways: str) -> PolicyStatus:
    refs = (ParentRef("gateway.networking.k8s.io", "Gateway", name) for name in gateways)
    return PolicyStatus(tuple(AncestorStatus(ref, OURS, (accepted("False"),)) for ref in refs))


def test_ancestor_entries_of_other_controllers_are_kept_and_ours_fit_into_the_list():
    ancestors = SHARED["BackendTLSPolicy"]
    foreign = {"ancestorRef": {"name": "theirs"}, "controllerName": "example.com/other", "conditions": []}
    written = shared_status(ancestors, policy("a", "b"), stored({"ancestors": [foreign] * 15}), is_ours, NOW)
    assert [entry["ancestorRef"]["name"] for entry in written["ancestors"]] == [*["theirs"] * 15, "a"], "16 at most"
    assert shared_status(ancestors, policy("a", "b"), stored(written), is_ours, NOW) is None
    assert [fault["reason"] for fault in faults(written)] == ["Invalid"]
    assert shared_status(ancestors, None, stored(written), is_ours, NOW) == {"ancestors": [foreign] * 15}


def test_faults_are_conditions_that_a_user_has_to_act_on():
    document = applied_status(gateway(status="False", message="why"), b"", NOW)
    assert [(c["type"], c["message"]) for c in faults(document)] == [("Accepted", "why"), ("Accepted", "")]
    assert not faults(applied_status(gateway(), b"", NOW))
    insecure = {"type": "InsecureFrontendValidationMode", "status": "True", "reason": "x", "message": "everybody"}
    assert faults({"conditions": [insecure]}) == [insecure]


def test_count_of_listener_sets_is_removed_with_the_last_one():
    """There is none in a status without any: CRDs of older versions don't have the field."""
    counted = structs.replace(gateway(), attached_listener_sets=1)
    written = applied_status(counted, b"null", NOW)
    assert written["attachedListenerSets"] == 1
    assert applied_status(counted, stored(written), NOW) is None
    removed = applied_status(gateway(), stored(written), NOW)
    assert "attachedListenerSets" not in removed
    assert applied_status(gateway(), stored(removed), NOW) is None


def test_condition_that_no_longer_holds_is_removed():
    """A ListenerSet that went can be the reason, so the generation stays."""
    overlapping = Condition("OverlappingTLSConfig", "True", "OverlappingHostnames", "why", 1)
    listener = ListenerStatus("http", KINDS, 0, (accepted(), overlapping))
    written = applied_status(structs.replace(gateway(), listeners=(listener,)), b"null", NOW)
    assert faults(written) == [], "it is a hint: everything is served"
    removed = applied_status(gateway(), stored(written), NOW)
    assert [each["type"] for each in removed["listeners"][0]["conditions"]] == ["Accepted"]
    assert applied_status(gateway(), stored(removed), NOW) is None


def test_notice_about_copied_keys_is_no_fault_and_goes_with_the_keys():
    copied = keys_copied([Key("Secret", "shop", "cert")], Key("Gateway", "infra", "edge"), 1)
    without = ListenerSetStatus((accepted(),), ())
    written = applied_status(ListenerSetStatus((accepted(), copied), ()), b"null", NOW)
    assert faults(written) == []
    assert "shop/cert" in written["conditions"][1]["message"]
    removed = applied_status(without, stored(written), NOW)
    assert [each["type"] for each in removed["conditions"]] == ["Accepted"]
    assert applied_status(without, stored(removed), NOW) is None


def test_listener_set_that_waits_for_its_gateway_has_no_fault():
    waiting = Condition("Programmed", "False", "ParentNotProgrammed", "no address yet", 1)
    status = ListenerSetStatus((accepted(), waiting), ())
    assert faults(applied_status(status, b"null", NOW)) == []
    rejected = ListenerSetStatus((Condition("Accepted", "False", "NotAllowed", "no", 1),), ())
    assert [one["reason"] for one in faults(applied_status(rejected, b"null", NOW))] == ["NotAllowed"]


@pytest.mark.parametrize(
    ("stored_condition", "needed"),
    [
        (None, True),
        ({"status": "Unknown", "reason": "Pending"}, True),
        ({"status": "Unknown", "reason": "Pending", "observedGeneration": 1}, True),
        ({"status": "Unknown", "reason": "Other", "observedGeneration": 2}, False),
        ({"status": "True", "reason": "Accepted", "observedGeneration": 1}, False),
        ({"status": "False", "reason": "InvalidParameters", "observedGeneration": 2}, False),
    ],
    ids=str,
)
def test_class_of_another_operator_gets_the_waiting_status_once(stored_condition, needed):
    pending = GatewayClassStatus((Condition("Accepted", "Unknown", "Pending", "waiting", 2),))
    conditions = [{"type": "Accepted", **stored_condition}] if stored_condition else []
    assert needs_waiting_status(pending, stored({"conditions": conditions})) is needed


def invalidated(phase: str, at: str = "2026-01-01T00:00:00Z", generation: int = 1) -> ir.InvalidationStatus:
    condition = ir.Condition("Complete", "True", phase, "", generation)
    return ir.InvalidationStatus(phase, generation, (condition,), started_at=at, completed_at=at)


def test_phase_of_an_invalidation_that_has_ended_does_not_go_back():
    written = stored(applied_status(invalidated("Failed"), b"null", NOW))
    assert applied_status(invalidated("Pending"), written, NOW) is None
    assert applied_status(invalidated("Complete"), written, NOW)["phase"] == "Complete"
    assert applied_status(invalidated("Pending", generation=2), written, NOW)["phase"] == "Pending"


def test_times_of_an_invalidation_stay_as_they_were_first_written():
    written = stored(applied_status(invalidated("Failed"), b"null", NOW))
    assert applied_status(invalidated("Failed", "2026-01-01T00:00:07Z"), written, NOW) is None
