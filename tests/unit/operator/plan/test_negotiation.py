"""What the pods of a Gateway understand in common."""

import pytest

from varnish_gateway.api import Key
from varnish_gateway.ir.capabilities import ALL, NONE, REQUEST_RULES
from varnish_gateway.operator.observe.pods import GatewayPod
from varnish_gateway.operator.observe.state import ObservedState
from varnish_gateway.operator.plan.negotiation import MOST_STARTING, Negotiation
from varnish_gateway.operator.status.readiness import PodReport

GATEWAY = Key("Gateway", "shop", "gw")
NEW = PodReport(capabilities=(*ALL, "of-a-later-version"), version="v2")
OLD = PodReport()
SILENT = "no answer"


def observed(*pods: GatewayPod) -> ObservedState:
    state = ObservedState("varnish")
    for pod in pods:
        state.put_pod(Key("Pod", "shop", pod.name), pod)
    return state


def pod(
    name: str, *, is_ready: bool = True, is_leaving: bool = False, address: str = "192.0.2.1", template: str = ""
) -> GatewayPod:
    return GatewayPod(name, GATEWAY, address, is_ready, is_leaving=is_leaving, template=template)


@pytest.mark.parametrize(
    ("reports", "current", "expected"),
    [
        ({"a": NEW, "b": NEW}, NONE, ALL),
        ({"a": NEW, "b": OLD}, ALL, NONE),
        ({"a": NEW, "b": SILENT}, ALL, ALL),
        ({"a": NEW, "b": SILENT}, NONE, NONE),
        ({"a": OLD, "b": SILENT}, ALL, NONE),
        ({}, ALL, ALL),
    ],
    ids=["all understand", "one is old", "silence takes nothing", "silence gives nothing", "old beside silent", "none"],
)
def test_one_pod_takes_a_capability_and_only_all_of_them_give_it(reports, current, expected):
    negotiation = Negotiation(observed(pod("a"), pod("b")))
    assert negotiation.on_reports(GATEWAY, reports, current) == expected


def test_pod_counts_with_what_it_reported_before_it_fell_silent():
    state = observed(pod("a"), pod("b"))
    negotiation = Negotiation(state)
    negotiation.on_reports(GATEWAY, {"a": NEW, "b": OLD}, ALL)
    assert negotiation.on_reports(GATEWAY, {"a": NEW, "b": SILENT}, NONE) == NONE
    state.put_pod(Key("Pod", "shop", "b"), pod("b", is_ready=False, is_leaving=True))
    assert negotiation.on_reports(GATEWAY, {"a": NEW}, NONE) == ALL, "it takes no new connections"


def test_pod_that_cannot_be_started_withholds_nothing_from_the_others():
    """No node has room for it, or its image can't be pulled."""
    state = observed(pod("a"), pod("b", is_ready=False, address=""))
    negotiation = Negotiation(state)
    assert negotiation.on_reports(GATEWAY, {"a": NEW}, NONE) == ALL
    state.put_pod(Key("Pod", "shop", "b"), pod("b", is_ready=False))
    assert [one.name for one in negotiation.starting_pods(GATEWAY)] == ["b"]
    assert negotiation.on_reports(GATEWAY, {"a": NEW, "b": OLD}, ALL) == NONE
    state.put_pod(Key("Pod", "shop", "a"), pod("a", address=""))
    assert "pod b doesn't report request-rules" in negotiation.message(GATEWAY, {REQUEST_RULES.name: []})


def test_pod_that_never_answers_counts_with_what_others_of_its_template_report():
    state = observed(pod("a", template="new"), pod("b", is_ready=False, template="new"))
    negotiation = Negotiation(state)
    assert negotiation.on_reports(GATEWAY, {"a": NEW, "b": SILENT}, NONE) == ALL
    assert [one.name for one in negotiation.starting_pods(GATEWAY)] == ["b"], "the operator still asks it"
    assert negotiation.on_reports(GATEWAY, {"a": NEW, "b": OLD}, ALL) == NONE, "its own report counts more"
    others = Negotiation(observed(pod("a", template="new"), pod("b", is_ready=False, template="old")))
    assert others.on_reports(GATEWAY, {"a": NEW, "b": SILENT}, NONE) == NONE


def test_gateway_without_pods_keeps_what_it_has():
    assert Negotiation(observed()).on_reports(GATEWAY, {}, NONE) == NONE
    assert Negotiation(observed()).on_reports(GATEWAY, {}, ALL) == ALL


def test_starting_pods_are_asked_until_they_answer_and_a_few_at_a_time():
    pods = [pod(f"p{number}", is_ready=False) for number in range(2 * MOST_STARTING)]
    state = observed(*pods, pod("ready"), pod("leaving", is_leaving=True), pod("placed", is_ready=False, address=""))
    negotiation = Negotiation(state)
    asked = [one.name for one in negotiation.starting_pods(GATEWAY)]
    assert asked == [one.name for one in pods[:MOST_STARTING]]
    negotiation.on_reports(GATEWAY, dict.fromkeys(asked[1:], OLD), ALL)
    assert [one.name for one in negotiation.starting_pods(GATEWAY)][:2] == ["p0", pods[MOST_STARTING].name]


def test_silent_pods_do_not_keep_the_operator_from_asking_others():
    """A pod that can't read its routing never becomes ready: the operator learns that only by asking it."""
    pods = [pod(f"p{number}", is_ready=False) for number in range(MOST_STARTING + 2)]
    negotiation = Negotiation(observed(*pods))
    asked: list[str] = []
    for _ in range(2):
        turn = [one.name for one in negotiation.starting_pods(GATEWAY)]
        assert len(turn) == MOST_STARTING
        asked += turn
        negotiation.on_reports(GATEWAY, dict.fromkeys(turn, SILENT), ALL)
    assert set(asked) == {one.name for one in pods}


def test_message_names_what_is_missed_by_whom():
    negotiation = Negotiation(observed(pod("web-abc"), pod("web-def")))
    negotiation.on_reports(GATEWAY, {"web-abc": NEW, "web-def": OLD}, ALL)
    message = negotiation.message(GATEWAY, {REQUEST_RULES.name: [], "many-retries": [Key("HTTPRoute", "shop", "tea")]})
    assert message == (
        "HTTPRoute shop/tea: a request is retried 20 times at most, because pod web-def doesn't report many-retries; "
        "forwarding and paths of the GatewayClassParameters are not in force, because pod web-def doesn't report "
        "request-rules. The operator sends this once every pod understands it"
    )
    assert negotiation.message(GATEWAY, {}) == ""
    without_pods = Negotiation(observed()).message(GATEWAY, {REQUEST_RULES.name: []})
    assert "because no pod has reported request-rules yet." in without_pods


def test_restarted_operator_that_cannot_reach_an_old_pod_states_the_same():
    pods = observed(pod("web-abc"), pod("web-def"))
    before, after = Negotiation(pods), Negotiation(pods)
    before.on_reports(GATEWAY, {"web-abc": NEW, "web-def": OLD}, ALL)
    after.on_reports(GATEWAY, {"web-abc": NEW, "web-def": SILENT}, NONE)
    messages = {one.message(GATEWAY, {REQUEST_RULES.name: []}) for one in (before, after)}
    assert len(messages) == 1
