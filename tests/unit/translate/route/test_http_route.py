import msgspec
import pytest

from support.builders.objects import gateway, keyed, obj, route, service
from varnish_gateway import api, ir
from varnish_gateway._ghost import check_routing
from varnish_gateway.api import Key
from varnish_gateway.ir import wire
from varnish_gateway.translate import Translator
from varnish_gateway.translate.route import regexes

GW, WEB = Key("Gateway", "default", "gw"), Key("HTTPRoute", "default", "web")
GOOD = {"backendRefs": [{"name": "web", "port": 80}]}
BAD = {"sessionPersistence": {}}


def translate(*objects: api.Object, **options) -> ir.Delta:
    return Translator(assume_class=True, **options).update(keyed(*objects))


def conditions(parent: ir.ParentStatus) -> dict[str, tuple[str, str]]:
    return {each.type: (each.status, each.reason) for each in parent.conditions}


def attached(delta: ir.Delta) -> dict[str, int]:
    return {listener.name: listener.attached_routes for listener in delta.statuses[GW].listeners}


def test_a_route_with_everything_that_decides_its_precedence():
    asked = route(metadata={"creationTimestamp": "1970-01-01T00:01:00Z", "generation": 3}, hostnames=["A.example.com"])
    delta = translate(gateway(), service(), asked)
    assert delta.gateways[GW].routes[WEB] == wire.Route(
        namespace="default",
        name="web",
        created=60,
        attachments=(wire.Attachment(listener="http", hostnames=("a.example.com",)),),
        rules=(wire.Rule(backends=(wire.Backend(service="default/web", port=80, port_name="http"),)),),
    )
    (parent,) = delta.statuses[WEB].parents
    assert conditions(parent) == {"Accepted": ("True", "Accepted"), "ResolvedRefs": ("True", "ResolvedRefs")}
    assert {each.observed_generation for each in parent.conditions} == {3}
    assert parent.controller_name == "varnish-software.com/gateway"


def test_a_parent_is_echoed_as_it_was_given():
    refs = [{"name": "gw"}, {"name": "gw", "namespace": "default", "sectionName": "http", "port": 80}]
    delta = translate(gateway(), service(), route(parentRefs=refs))
    assert [parent.parent_ref for parent in delta.statuses[WEB].parents] == [
        ir.ParentRef("gateway.networking.k8s.io", "Gateway", "gw"),
        ir.ParentRef("gateway.networking.k8s.io", "Gateway", "gw", "default", "http", 80),
    ]
    assert attached(delta) == {"http": 1}
    assert len(delta.gateways[GW].routes[WEB].attachments) == 1


def test_parents_that_are_not_ours_to_answer():
    refs = [{"group": "", "kind": "Service", "name": "web"}, {"name": "gone"}]
    assert WEB not in translate(gateway(), service(), route(parentRefs=refs)).statuses


def test_missing_gateway_on_one_machine_is_reported_to_the_route():
    delta = translate(service(), route(), one_machine=True)
    assert conditions(delta.statuses[WEB].parents[0])["Accepted"] == ("False", "NoMatchingParent")


def test_on_one_machine_a_gateway_of_another_class_is_still_not_ours():
    other = gateway(gatewayClassName="nginx")
    assert WEB not in translate(other, service(), route(), one_machine=True).statuses


def test_some_rules_are_invalid():
    delta = translate(gateway(), service(), route(rules=[GOOD, BAD]))
    (parent,) = delta.statuses[WEB].parents
    assert conditions(parent)["Accepted"] == ("True", "Accepted")
    assert conditions(parent)["PartiallyInvalid"] == ("True", "UnsupportedValue")
    assert parent.conditions[-1].message.startswith("Dropped Rule")
    assert attached(delta) == {"http": 1}


def test_all_rules_are_invalid():
    delta = translate(gateway(), service(), route(rules=[BAD]))
    (parent,) = delta.statuses[WEB].parents
    assert conditions(parent)["Accepted"] == ("False", "UnsupportedValue")
    assert "PartiallyInvalid" not in conditions(parent)
    assert attached(delta) == {"http": 0}
    assert delta.gateways[GW].routes[WEB].rules == (wire.Rule(status=500),)


def test_a_route_that_is_not_attached_is_not_partially_invalid():
    delta = translate(gateway(), service(), route("web", "team", rules=[GOOD, BAD]))
    (parent,) = delta.statuses[Key("HTTPRoute", "team", "web")].parents
    assert conditions(parent)["Accepted"] == ("False", "NotAllowedByListeners")
    assert "PartiallyInvalid" not in conditions(parent)


def test_a_listener_that_is_not_served_counts_the_route_but_gets_no_traffic():
    delta = translate(gateway("gw", {"name": "http", "port": 6082, "protocol": "HTTP"}), service(), route())
    assert attached(delta) == {"http": 1}
    assert delta.gateways[GW].routes == {}
    (parent,) = delta.statuses[WEB].parents
    assert "not served" in parent.conditions[0].message


def test_a_route_without_rules_is_served_as_the_default_rule():
    bare = obj("HTTPRoute", "web", spec={"parentRefs": [{"name": "gw"}]})
    assert translate(gateway(), bare).gateways[GW].routes[WEB].rules == (wire.Rule(status=500),)


def test_however_much_is_wrong_there_is_a_message_that_can_be_stored():
    far = [{"name": f"{'service' * 5}-{n}", "namespace": "elsewhere", "port": 80} for n in range(16)]
    regexes = [{"name": f"h{n}", "type": "RegularExpression", "value": "(" * 3000} for n in range(16)]
    rules = [{"backendRefs": [ref | {"name": f"{ref['name']}-{n}"} for ref in far]} for n in range(15)]
    asked = route(rules=[*rules, {"matches": [{"headers": regexes}]}])
    (parent,) = translate(gateway(), asked).statuses[WEB].parents
    messages = {each.type: each.message for each in parent.conditions}
    assert all(len(message) < 2500 for message in messages.values())
    assert messages["ResolvedRefs"].endswith(" more")
    assert messages["PartiallyInvalid"].endswith(" more")


def regex_rule(*patterns: str) -> dict:
    return GOOD | {"matches": [{"path": {"type": "RegularExpression", "value": pattern}} for pattern in patterns]}


def test_route_over_the_budget_of_regexes_is_rejected_with_figures_and_hides_no_other():
    delta = translate(gateway(), service(), route(rules=[regex_rule(*(f"/v[0-9]+/{n}" for n in range(1000)))]))
    (accepted, *_) = delta.statuses[WEB].parents[0].conditions
    assert (accepted.status, accepted.reason) == ("False", "UnsupportedValue")
    assert "more than the budget of 1,048,576; use fewer or simpler ones, or split the route" in accepted.message
    (rule,) = delta.gateways[GW].routes[WEB].rules
    assert (rule.status, rule.approximate) == (500, True)


def test_ghost_accepts_what_is_within_the_budget():
    patterns = (f"/v[0-9]+/{n}" for n in range(200))
    delta = translate(gateway(), service(), route(rules=[regex_rule(*patterns)]))
    served = delta.gateways[GW].routes[WEB]
    assert len(served.rules[0].matches) == 200
    check_routing(msgspec.json.encode(wire.Routing(version=2, shard=0, shards=1, listeners=(), routes=(served,))))


def test_regexes_of_a_route_that_no_listener_allows_are_not_compiled(monkeypatch: pytest.MonkeyPatch):
    compiled: list[str] = []
    monkeypatch.setattr(regexes, "compile_regex", lambda pattern: (compiled.append(pattern) or 1, None))
    rules = [regex_rule("/not-compiled-before")]
    delta = translate(gateway(), service(), route(rules=rules, parentRefs=[{"name": "gw", "sectionName": "gone"}]))
    assert conditions(delta.statuses[WEB].parents[0])["Accepted"] == ("False", "NoMatchingParent")
    assert compiled == []
    translate(gateway(), service(), route(rules=rules))
    assert compiled == ["/not-compiled-before"]
