"""A backend that a BackendTLSPolicy targets gets no plain request, whenever the policy comes and goes."""

from support.builders.objects import backend_tls, gateway, grant, keyed, route, service
from varnish_gateway import ir
from varnish_gateway.api import Key
from varnish_gateway.ir import wire
from varnish_gateway.translate import Translator
from varnish_gateway.translate.policy.backend_tls import target_of

GW, WEB, POLICY = (
    Key(kind, "default", name) for kind, name in (("Gateway", "gw"), ("HTTPRoute", "web"), ("BackendTLSPolicy", "tls"))
)
PLAIN = wire.Backend(service="default/web", port=80, port_name="http")


def backends(delta: ir.Delta) -> tuple[wire.Backend, ...]:
    found = delta.gateways[GW].routes[WEB]
    assert found is not None
    return found.rules[0].backends


def conditions(delta: ir.Delta) -> dict[str, tuple[str, str]]:
    (parent,) = delta.statuses[WEB].parents
    return {one.type: (one.status, one.reason) for one in parent.conditions}


def test_policy_that_comes_stops_plain_requests_and_one_that_goes_lets_them_pass():
    translator = Translator(assume_class=True)
    assert backends(translator.update(keyed(gateway(), service(), route()))) == (PLAIN,)
    came = translator.update(keyed(backend_tls()))
    assert backends(came) == (wire.Backend(status=500),)
    assert conditions(came) == {"Accepted": ("True", "Accepted"), "ResolvedRefs": ("False", "UnsupportedProtocol")}
    (ancestor,) = came.statuses[POLICY].ancestors
    assert (ancestor.ancestor_ref.namespace, ancestor.ancestor_ref.name) == ("default", "gw")
    assert [(one.type, one.status, one.reason) for one in ancestor.conditions] == [("Accepted", "False", "Invalid")]
    assert "not supported yet" in ancestor.conditions[0].message
    went = translator.update({POLICY: None})
    assert backends(went) == (PLAIN,)
    assert went.statuses[POLICY] is None


def test_policy_of_another_port_changes_nothing():
    translator = Translator(assume_class=True)
    translator.update(keyed(gateway(), service(), route()))
    assert translator.update(keyed(backend_tls(sectionName="other"))) == ir.Delta()
    assert backends(translator.update(keyed(backend_tls(sectionName="http")))) == (wire.Backend(status=500),)


def test_policy_has_a_status_only_while_a_gateway_of_ours_uses_its_target():
    translator = Translator(assume_class=True)
    assert POLICY not in translator.update(keyed(gateway(), service(), backend_tls())).statuses
    assert translator.update(keyed(route())).statuses[POLICY] is not None
    assert translator.update({WEB: None}).statuses[POLICY] is None


def test_route_without_a_grant_reveals_no_policy_of_another_namespace():
    crossing = route(rules=[{"backendRefs": [{"name": "web", "namespace": "team", "port": 80}]}])
    translator = Translator(assume_class=True)
    delta = translator.update(keyed(gateway(), service(namespace="team"), backend_tls(namespace="team"), crossing))
    assert conditions(delta)["ResolvedRefs"] == ("False", "RefNotPermitted")
    assert Key("BackendTLSPolicy", "team", "tls") not in delta.statuses
    granted = translator.update(keyed(grant("team")))
    assert conditions(granted)["ResolvedRefs"] == ("False", "UnsupportedProtocol")
    assert granted.statuses[Key("BackendTLSPolicy", "team", "tls")] is not None


def test_target_of_a_port_differs_from_that_of_its_service():
    assert target_of("default", "web") != target_of("default", "web", "http")
