"""Routes whose regular expressions a program compiles, while translation goes on."""

from pathlib import Path

import pytest
from msgspec import structs

from support.builders.objects import gateway, grant, keyed, route, service
from varnish_gateway import api, ir
from varnish_gateway.api import Key
from varnish_gateway.translate import Translator
from varnish_gateway.translate.compilation import compiled_key
from varnish_gateway.translate.options import Options
from varnish_gateway.translate.route import regexes
from varnish_gateway.translate.route.compiled_matches import CompiledMatches, compile_matches

GW, WEB = Key("Gateway", "default", "gw"), Key("HTTPRoute", "default", "web")


def matching(*patterns: str, generation: int = 1, backend: dict | None = None, **spec: object) -> api.HTTPRoute:
    matches = [{"path": {"type": "RegularExpression", "value": pattern}} for pattern in patterns]
    rule = {"matches": matches, "backendRefs": [backend or {"name": "web", "port": 80}]}
    return route(rules=[rule], metadata={"generation": generation}, **spec)


def translator(**options) -> Translator:
    return Translator(assume_class=True, compiles=False, **options)


def compiled(*routes: api.HTTPRoute) -> dict[Key, CompiledMatches]:
    return {compiled_key(api.key_of(one)): compile_matches(one) for one in routes}


def accepted(delta: ir.Delta, key: Key = WEB) -> tuple[str, str, int]:
    (condition, *_) = delta.statuses[key].parents[0].conditions
    return condition.status, condition.reason, condition.observed_generation


def paths(delta: ir.Delta, key: Key = WEB) -> list[str]:
    return [match.path.value for rule in delta.gateways[GW].routes[key].rules for match in rule.matches]


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Give the patterns that are compiled in passing, where that must not happen."""
    found: list[str] = []
    monkeypatch.setattr(regexes, "_compiled", lambda pattern: (found.append(pattern) or 1, None))
    return found


def test_new_route_is_pending_until_it_is_compiled(compilations: list[str]):
    translation, new = translator(), matching("/v[0-9]+")
    before = translation.update(keyed(gateway(), service(), new))
    assert compilations == []
    assert before.uncompiled == {WEB: new}
    assert accepted(before) == ("Unknown", "Pending", 1)
    assert before.gateways[GW].routes == {}
    after = translation.update(compiled(new))
    assert accepted(after) == ("True", "Accepted", 1)
    assert paths(after) == ["/v[0-9]+"]
    assert after.uncompiled == {WEB: None}


def test_previous_version_serves_until_the_new_one_is_compiled(compilations: list[str]):
    old, new = matching("/old.*"), matching("/new.*", generation=2)
    translation = translator()
    translation.update(keyed(gateway(), service(), old) | compiled(old))
    del compilations[:]
    delta = translation.update(keyed(new))
    assert delta == ir.Delta(uncompiled={WEB: new})
    assert compilations == []
    later = translation.update(compiled(new))
    assert (paths(later), accepted(later)) == (["/new.*"], ("True", "Accepted", 2))


def test_route_without_regexes_serves_until_its_first_ones_are_compiled(compilations: list[str]):
    plain, new = route(), matching("/new.*", generation=2)
    translation = translator()
    translation.update(keyed(gateway(), service(), plain))
    assert translation.update(keyed(new)) == ir.Delta(uncompiled={WEB: new})
    assert translation.update(keyed(gateway(metadata={"generation": 2}))).gateways == {}, "it waits on"
    assert compilations == []
    later = translation.update(compiled(new))
    assert (paths(later), accepted(later)) == (["/new.*"], ("True", "Accepted", 2))
    assert translation.update(keyed(plain)).released == {WEB}
    again = translation.update({compiled_key(WEB): None} | keyed(matching("/again.*")))
    assert again.gateways == {}, "it serves as it is"


def test_route_that_did_not_attach_without_regexes_is_pending_with_them():
    elsewhere = route(parentRefs=[{"name": "gw", "sectionName": "gone"}])
    translation = translator()
    translation.update(keyed(gateway(), service(), elsewhere))
    assert accepted(translation.update(keyed(matching("/new.*")))) == ("Unknown", "Pending", 1)


def test_changes_of_a_route_without_regexes_release_nothing():
    translation = translator()
    translation.update(keyed(gateway(), service(), route()))
    assert translation.update(keyed(route(hostnames=["a.example.com"]))).released == set()
    assert translation.update({WEB: None}).released == set()


def test_result_for_a_version_that_is_outdated_changes_nothing():
    old, other, new = (matching(f"/{name}.*") for name in ("old", "other", "new"))
    translation = translator()
    translation.update(keyed(gateway(), service(), old) | compiled(old))
    translation.update(keyed(other))
    assert translation.update(keyed(new)).uncompiled == {WEB: new}
    assert translation.update(compiled(other)).gateways == {}
    assert paths(translation.update(compiled(new))) == ["/new.*"]


def test_revoked_grant_holds_for_the_previous_version_at_once():
    far = {"name": "web", "namespace": "far", "port": 80}
    old, new = matching("/old.*", backend=far), matching("/new.*", backend=far)
    permission = grant("far", kind="Service", group="")
    translation = translator()
    translation.update(keyed(gateway(), service(namespace="far"), permission, old) | compiled(old))
    translation.update(keyed(new))
    delta = translation.update({api.key_of(permission): None})
    (rule,) = delta.gateways[GW].routes[WEB].rules
    assert [backend.status for backend in rule.backends] == [500]
    assert paths(delta) == ["/old.*"]


def test_route_that_is_deleted_or_detached_need_not_be_compiled():
    elsewhere = [{"name": "gw", "sectionName": "gone"}]
    for change in ({WEB: None}, keyed(matching("/v.*", parentRefs=elsewhere))):
        translation = translator()
        translation.update(keyed(gateway(), service(), matching("/v.*")))
        delta = translation.update(change)
        assert (delta.uncompiled, delta.released) == ({WEB: None}, {WEB})


def test_route_that_no_listener_allows_is_compiled_once_one_does(compilations: list[str]):
    asked = matching("/v.*", parentRefs=[{"name": "gw", "sectionName": "later"}])
    translation = translator()
    first = translation.update(keyed(gateway(), service(), asked))
    assert (first.uncompiled, compilations) == ({}, [])
    listeners = ({"name": name, "port": port, "protocol": "HTTP"} for name, port in (("http", 80), ("later", 81)))
    later = translation.update(keyed(gateway("gw", *listeners)))
    assert later.uncompiled == {WEB: asked}
    assert accepted(later) == ("Unknown", "Pending", 1)


def test_route_over_its_own_budget_takes_nothing_from_the_share_of_its_namespace(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(regexes, "_compiled", lambda pattern: (regexes.ROUTE_BUDGET // len(pattern) + 1, None))
    large, small = matching("/", "."), matching("/v[0-9]+")
    small = structs.replace(small, metadata=structs.replace(small.metadata, name="younger"))
    translation = Translator(assume_class=True, namespace_regexes=regexes.ROUTE_BUDGET)
    delta = translation.update(keyed(gateway(), service(), large, small))
    assert accepted(delta)[:2] == ("False", "UnsupportedValue")
    assert accepted(delta, api.key_of(small))[0] == "True"


def test_sums_of_regular_expressions_are_as_documented():
    page = (Path(__file__).parents[4] / "docs/concepts/matching.md").read_text()
    assert f"share {Options().namespace_regexes >> 20} MiB on each Gateway" in page
    assert f"All namespaces of a Gateway share {Options().gateway_regexes >> 20} MiB." in page


EVERYONE = {"name": "http", "port": 80, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "All"}}}


def asked(name: str, namespace: str, created: int, pattern: str) -> api.HTTPRoute:
    rules = [{"matches": [{"path": {"type": "RegularExpression", "value": pattern}}]}]
    metadata = {"creationTimestamp": f"1970-01-01T00:00:{created:02}Z"}
    parents = [{"name": "gw", "namespace": "default"}]
    return route(name, namespace, rules=rules, parentRefs=parents, metadata=metadata)


def cost(one: api.HTTPRoute) -> int:
    return sum(compile_matches(one).charges.values())


def test_namespace_over_its_share_of_a_gateway_is_rejected_with_figures_and_its_neighbour_is_served():
    routes = [asked(f"r{number}", "greedy", number, f"/v[0-9]+{number}") for number in range(4)]
    neighbour = asked("web", "modest", 50, "/v[0-9]+")
    limit = 3 * cost(neighbour)
    translation = Translator(assume_class=True, namespace_regexes=limit)
    delta = translation.update(keyed(gateway("gw", EVERYONE), *routes, neighbour))
    keys = [api.key_of(one) for one in (*routes, neighbour)]
    assert [accepted(delta, key)[0] for key in keys] == ["True", "True", "False", "False", "True"]
    message = delta.statuses[keys[2]].parents[0].conditions[0].message
    assert f"more than the {limit:,} bytes that a namespace has on Gateway default/gw; use fewer" in message
    assert [rule.status for rule in delta.gateways[GW].routes[keys[2]].rules] == [500]
    assert delta.statuses[GW].listeners[0].attached_routes == 3
    freed = translation.update({keys[0]: None})
    assert accepted(freed, keys[2])[0] == "True"
    assert keys[3] not in freed.statuses


def test_namespaces_that_take_the_most_give_way_where_all_exceed_what_a_gateway_has():
    greedy = [asked(f"r{number}", f"greedy-{number % 2}", number, f"/v[0-9]+{number}") for number in range(4)]
    modest = asked("web", "modest", 50, "/v[0-9]+")
    each = cost(greedy[0])
    translation = Translator(assume_class=True, gateway_regexes=4 * each, namespace_regexes=3 * each)
    delta = translation.update(keyed(gateway("gw", EVERYONE), *greedy, modest))
    statuses = [accepted(delta, api.key_of(one))[0] for one in (*greedy, modest)]
    assert statuses == ["True", "True", "False", "False", "True"]
