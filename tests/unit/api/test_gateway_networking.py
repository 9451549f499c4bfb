from support.builders.objects import gateway, grant, obj, route


def test_listener_has_defaults():
    (listener,) = gateway().spec.listeners
    assert listener.hostname is None
    assert listener.allowed_routes.namespaces.from_ == "Same"
    assert listener.allowed_routes.kinds == ()


def test_route_has_defaults():
    spec = obj("HTTPRoute", "web", spec={"parentRefs": [{"name": "gw"}]}).spec
    assert (spec.parent_refs[0].group, spec.parent_refs[0].kind) == ("gateway.networking.k8s.io", "Gateway")
    assert len(spec.rules) == 1
    (ref,) = route().spec.rules[0].backend_refs
    assert (ref.group, ref.kind, ref.weight) == ("", "Service", 1)


def test_match_has_defaults():
    (match,) = route(rules=[{"matches": [{"headers": [{"name": "a", "value": "b"}]}]}]).spec.rules[0].matches
    assert (match.path.type, match.path.value) == ("PathPrefix", "/")
    assert match.headers[0].type == "Exact"


def test_unknown_values_are_kept():
    (match,) = route(rules=[{"matches": [{"path": {"type": "Glob"}}]}]).spec.rules[0].matches
    assert match.path.type == "Glob"


def test_from_is_decoded():
    assert grant("team").spec.from_[0].namespace == "default"
