"""Cache policies reach the rules and listeners that they are for, whenever they come and go."""

import msgspec
import pytest
from msgspec import UNSET, structs

from support.builders.objects import (
    VARNISH_API,
    cache_policy,
    gateway,
    grant,
    keyed,
    listener_set,
    obj,
    route,
    service,
)
from support.builders.recording import recording
from varnish_gateway import api, ir
from varnish_gateway.api import Key
from varnish_gateway.ir import wire
from varnish_gateway.translate import Translator
from varnish_gateway.translate.compilation import compile_object, compiled_key
from varnish_gateway.translate.gateway import effective_gateway
from varnish_gateway.translate.layers import Layer
from varnish_gateway.translate.policy import cache_patterns
from varnish_gateway.translate.policy.cache_patterns import POLICY_BUDGET
from varnish_gateway.translate.route import http_route, versions
from varnish_gateway.translate.route.compiled_matches import compile_matches
from varnish_gateway.translate.translator import LAYERS

GW, WEB = Key("Gateway", "default", "gw"), Key("HTTPRoute", "default", "web")
POLICY = Key("VarnishCachePolicy", "default", "cache")
AFFECTED = "gateway.varnish-software.com/VarnishCachePolicyAffected"
NAMED = [
    {"name": "assets", "matches": [{"path": {"value": "/assets"}}], "backendRefs": [{"name": "web", "port": 80}]},
    {"name": "pages", "backendRefs": [{"name": "web", "port": 80}]},
]
WORLD = (gateway(), service(), route(rules=NAMED))
OLD, YOUNG = {"creationTimestamp": "2024-01-01T00:00:00Z"}, {"creationTimestamp": "2024-01-02T00:00:00Z"}
GLOBS = {"cacheKey": {"queryParameters": {"exclude": ["utm_*"]}}}


def started(*objects: api.Object, **options) -> Translator:
    translator = Translator(**{"assume_class": True} | options)
    translator.update(keyed(*(objects or WORLD)))
    return translator


def rule_caches(delta: ir.Delta, key: Key = WEB) -> list[wire.CachePolicy | None]:
    return [rule.cache for rule in delta.gateways[GW].routes[key].rules]


def listener_caches(delta: ir.Delta) -> list[wire.CachePolicy | None]:
    return [listener.cache for listener in delta.gateways[GW].listeners]


def ttls(caches: list[wire.CachePolicy | None]) -> list[int | None]:
    return [cache and cache.default_ttl for cache in caches]


def accepted(delta: ir.Delta, name: str = "cache", namespace: str = "default") -> list[tuple[str, str]]:
    """Return status and reason of Accepted for each ancestor."""
    ancestors = delta.statuses[Key("VarnishCachePolicy", namespace, name)].ancestors
    return [(one.conditions[0].status, one.conditions[0].reason) for one in ancestors]


def message(delta: ir.Delta, name: str = "cache", namespace: str = "default") -> str:
    return delta.statuses[Key("VarnishCachePolicy", namespace, name)].ancestors[0].conditions[0].message


def types(conditions: tuple[ir.Condition, ...]) -> list[str]:
    return [condition.type for condition in conditions]


# -- where policies apply -------------------------------------------------------------------


def test_policy_of_a_route_comes_and_goes():
    translator = started()
    came = translator.update(keyed(cache_policy()))
    assert rule_caches(came) == [wire.CachePolicy(name="default/cache", default_ttl=60_000)] * 2
    assert came.gateways[GW].listeners is None
    assert accepted(came) == [("True", "Accepted")]
    assert AFFECTED in types(came.statuses[WEB].parents[0].conditions)
    went = translator.update({POLICY: None})
    assert rule_caches(went) == [None, None]
    assert went.statuses[POLICY] is None
    assert AFFECTED not in types(went.statuses[WEB].parents[0].conditions)


def test_policy_of_a_rule_replaces_that_of_its_route_and_its_end_brings_it_back():
    translator = started(*WORLD, cache_policy(grace="1m"))
    special = cache_policy("special", section="assets", defaultTTL="2s")
    came = translator.update(keyed(special))
    assert rule_caches(came)[0] == wire.CachePolicy(name="default/special", default_ttl=2000)
    assert rule_caches(came)[1].grace == 60_000
    went = translator.update({Key("VarnishCachePolicy", "default", "special"): None})
    assert [cache.grace for cache in rule_caches(went)] == [60_000, 60_000]


def test_policy_of_a_gateway_changes_its_listeners_and_no_route():
    translator = started(
        gateway("gw", {"name": "a", "port": 80, "protocol": "HTTP"}, {"name": "b", "port": 81, "protocol": "HTTP"}),
        *WORLD[1:],
    )
    came = translator.update(keyed(cache_policy(kind="Gateway", target="gw")))
    assert ttls(listener_caches(came)) == [60_000, 60_000]
    assert came.gateways[GW].routes == {}
    assert came.gateways[GW].placed is None, "pods are not touched"
    assert types(came.statuses[GW].conditions)[-1] == AFFECTED
    special = translator.update(
        keyed(cache_policy("special", kind="Gateway", target="gw", section="b", defaultTTL="1s"))
    )
    assert ttls(listener_caches(special)) == [60_000, 1000]
    first, second = special.statuses[GW].listeners
    assert (AFFECTED in types(first.conditions), AFFECTED in types(second.conditions)) == (False, True)


def test_policy_of_a_gateway_holds_for_its_listener_sets_until_they_have_their_own():
    everyone = {"namespaces": {"from": "All"}}
    translator = started(gateway(allowedListeners=everyone), listener_set("set", namespace="team"))
    came = translator.update(keyed(cache_policy(kind="Gateway", target="gw")))
    assert ttls(listener_caches(came)) == [60_000, 60_000]
    own = cache_policy("own", namespace="team", kind="ListenerSet", target="set", defaultTTL="1s")
    assert ttls(listener_caches(translator.update(keyed(own)))) == [60_000, 1000]


def test_policy_without_a_target_of_ours_has_no_status_in_a_cluster_and_one_on_one_machine():
    foreign = gateway(gatewayClassName="foreign")
    for one_machine in (False, True):
        delta = Translator(assume_class=True, one_machine=one_machine).update(
            keyed(foreign, service(), route(), cache_policy(), cache_policy("gateway", kind="Gateway", target="gw"))
        )
        found = {key.name for key in delta.statuses if key.kind == "VarnishCachePolicy"}
        assert found == ({"cache", "gateway"} if one_machine else set())


def test_rule_without_backends_has_nothing_to_cache():
    redirect = {"type": "RequestRedirect", "requestRedirect": {"hostname": "a.example.com"}}
    delta = started(gateway(), route(rules=[{"filters": [redirect]}])).update(keyed(cache_policy()))
    assert GW not in delta.gateways


# -- conflicts ------------------------------------------------------------------------------


def test_loser_of_a_conflict_recovers():
    translator = started(*WORLD, cache_policy("young", metadata=YOUNG, defaultTTL="2s"))
    came = translator.update(keyed(cache_policy("old", metadata=OLD, defaultTTL="1s")))
    assert ttls(rule_caches(came)) == [1000, 1000]
    assert accepted(came, "young") == [("False", "Conflicted")]
    assert "VarnishCachePolicy default/old is older" in message(came, "young")
    went = translator.update({Key("VarnishCachePolicy", "default", "old"): None})
    assert ttls(rule_caches(went)) == [2000, 2000]
    assert accepted(went, "young") == [("True", "Accepted")]


def test_invalid_policy_that_is_older_still_holds_its_target():
    invalid = cache_policy("old", metadata=OLD, defaultTTL="soon")
    delta = started().update(keyed(invalid, cache_policy("young", metadata=YOUNG)))
    assert rule_caches(delta) == [wire.CachePolicy(name="default/old", off=True)] * 2
    assert accepted(delta, "young") == [("False", "Conflicted")]


# -- faults ---------------------------------------------------------------------------------


def test_fault_is_corrected_without_a_trace():
    translator = started(*WORLD, cache_policy("gateway", kind="Gateway", target="gw"))
    valid = translator.update(keyed(cache_policy()))
    wrong = translator.update(keyed(cache_policy(bypass={"headers": [{"name": "x", "valueRegex": "("}]})))
    assert [cache.off for cache in rule_caches(wrong)] == [True, True]
    assert "bypass.headers[0].valueRegex" in message(wrong)
    assert "not even by a less specific policy" in message(wrong)
    assert wrong.gateways[GW].listeners is None
    assert rule_caches(translator.update(keyed(cache_policy()))) == rule_caches(valid)


@pytest.mark.parametrize("one_machine", [False, True])
def test_target_in_another_namespace_is_invalid_and_affects_nothing(one_machine):
    ref = {"kind": "HTTPRoute", "name": "web", "namespace": "default"}
    spec = {"targetRef": ref, "defaultTTL": "1m"}
    delta = started(one_machine=one_machine).update(
        keyed(obj("VarnishCachePolicy", "cache", "team", group=VARNISH_API, spec=spec))
    )
    assert delta.gateways == {}
    assert accepted(delta, namespace="team") == [("False", "Invalid")]


def test_policy_that_waits_for_its_target_is_in_force_once_that_comes():
    translator = started(gateway(), service(), cache_policy())
    came = translator.update(keyed(route(rules=NAMED)))
    assert ttls(rule_caches(came)) == [60_000, 60_000]
    assert accepted(came) == [("True", "Accepted")]


# -- sums -----------------------------------------------------------------------------------


def large(count: int, prefix: str = "x") -> dict:
    return {"cacheKey": {"headers": [f"{prefix}-{number}" * 20 for number in range(count)]}}


def test_policies_that_make_a_route_too_large_are_off_and_the_route_is_served():
    delta = started(route_limit=2_000).update(keyed(cache_policy(**large(20))))
    assert [cache.off for cache in rule_caches(delta)] == [True, True]
    assert accepted(delta) == [("False", "Invalid")]
    assert "more than the limit of 2,000" in message(delta)
    assert delta.statuses[WEB].parents[0].conditions[0].status == "True"


def test_policies_that_make_the_listeners_of_a_gateway_too_large_are_off_where_they_do_not_fit():
    listeners = [{"name": f"l{number}", "port": 80 + number, "protocol": "HTTP"} for number in range(3)]
    translator = started(gateway("gw", *listeners), policies_limit=1_800)
    delta = translator.update(keyed(cache_policy(kind="Gateway", target="gw", **large(10))))
    assert [cache.off for cache in listener_caches(delta)] == [False, False, True]
    assert accepted(delta) == [("True", "Accepted")], "it is in force on the others"
    assert "nothing is cached on the listeners l2: " in partly_off(delta)
    assert "1,800 bytes" in partly_off(delta)
    larger = translator.update(keyed(cache_policy(kind="Gateway", target="gw", **large(30))))
    assert [cache.off for cache in listener_caches(larger)] == [True, True, True]
    assert accepted(larger) == [("False", "Invalid")]
    assert "1,800 bytes" in message(larger)
    assert partly_off(larger) is None


EVERYONE = {"namespaces": {"from": "All"}}
OPEN_GATEWAY = gateway(
    "gw", {"name": "http", "port": 80, "protocol": "HTTP", "allowedRoutes": EVERYONE}, allowedListeners=EVERYONE
)


def partly_off(delta: ir.Delta, name: str = "cache", namespace: str = "default") -> str | None:
    (ancestor,) = delta.statuses[Key("VarnishCachePolicy", namespace, name)].ancestors
    return next((one.message for one in ancestor.conditions if one.type == "PartiallyInvalid"), None)


def set_of(namespace: str, count: int, created: int = 1) -> api.ListenerSet:
    entries = ({"name": f"h{n}", "port": 80, "protocol": "HTTP", "hostname": f"{namespace}{n}.a"} for n in range(count))
    metadata = {"creationTimestamp": f"2024-01-{created:02}T00:00:00Z"}
    return listener_set("set", *entries, namespace=namespace, metadata=metadata)


def off_by_listener(delta: ir.Delta) -> dict[str, bool]:
    return {one.name: one.cache.off for one in delta.gateways[GW].listeners if one.cache is not None}


def test_policy_of_a_tenant_switches_off_no_other_policy():
    """The tenant is the oldest. Its large policy takes nothing from the Gateway's, nor from that of another tenant."""
    own = cache_policy(kind="Gateway", target="gw")
    modest = cache_policy("modest", "modest", kind="ListenerSet", target="set")
    translator = started(OPEN_GATEWAY, own, set_of("hostile", 4), set_of("modest", 2, 9), modest, policies_limit=10_000)
    hostile = cache_policy("hostile", "hostile", kind="ListenerSet", target="set", **large(40))
    delta = translator.update(keyed(hostile))
    off = off_by_listener(delta)
    assert {name for name, is_off in off.items() if is_off} == {f"hostile/set/h{n}" for n in range(4)}
    assert len(off) == 7
    assert accepted(delta, "hostile", "hostile") == [("False", "Invalid")]
    assert {key.name for key in delta.statuses if key.kind == "VarnishCachePolicy"} == {"hostile"}


def test_listeners_of_a_tenant_keep_the_policy_of_the_gateway_from_no_other_tenant():
    own = cache_policy(kind="Gateway", target="gw", grace="1m")
    sets = (set_of("hostile", 60), set_of("modest", 2, 9))
    delta = Translator(assume_class=True, policies_limit=4_000).update(keyed(OPEN_GATEWAY, *sets, own))
    off = off_by_listener(delta)
    assert not any(off[name] for name in ("http", "modest/set/h0", "modest/set/h1"))
    assert 0 < sum(off.values()) < 60
    assert accepted(delta) == [("True", "Accepted")]
    assert "the listeners hostile/set/h" in partly_off(delta)
    assert ", and more: " in partly_off(delta)


def test_quota_of_a_namespace_shrinks_until_all_fit():
    """Six namespaces ask for the same; none gets nothing."""
    names = [f"tenant-{number}" for number in range(6)]
    policies = [cache_policy("own", name, kind="ListenerSet", target="set") for name in names]
    sets = [set_of(name, 20) for name in names]
    delta = Translator(assume_class=True, policies_limit=4_000).update(keyed(OPEN_GATEWAY, *sets, *policies))
    served = [one for one in delta.gateways[GW].listeners if one.cache is not None and not one.cache.off]
    counts = [sum(one.name.startswith(name) for one in served) for name in names]
    assert len(set(counts)) == 1
    assert counts[0] > 0
    assert sum(len(msgspec.json.encode(one.cache)) for one in served) <= 4_000


def test_policies_that_are_off_stay_within_the_quotas_of_listeners_and_policies():
    """A name has up to 317 bytes, and each listener carries it."""
    names = [f"tenant-{number}" for number in range(6)]
    faulty = [cache_policy("p" * 253, name, kind="ListenerSet", target="set", defaultTTL="soon") for name in names]
    sets = [set_of(name, 64) for name in names]
    limits = {"listeners_limit": 60_000, "policies_limit": 10_000}
    delta = Translator(assume_class=True, **limits).update(keyed(OPEN_GATEWAY, *sets, *faulty))
    listeners = delta.gateways[GW].listeners
    assert sum(one.cache is not None and one.cache.off for one in listeners) == 6 * 64, "none of them is cached"
    assert len(msgspec.json.encode(listeners)) < sum(limits.values())


def test_pattern_beyond_the_budget_of_a_policy_is_a_fault():
    headers = [{"name": "x", "valueRegex": f"[{letter}-z]{{500}}"} for letter in "abc"]
    assert not rule_caches(started().update(keyed(cache_policy(bypass={"headers": headers[:1]}))))[0].off
    delta = started().update(keyed(cache_policy(bypass={"headers": headers})))
    assert [cache.off for cache in rule_caches(delta)] == [True, True]
    assert f"more than the budget of {POLICY_BUDGET:,}" in message(delta)


def test_patterns_of_a_route_and_its_policies_have_a_budget_together():
    """Each of them is within its own."""
    names = [f"rule-{number:02}" for number in range(16)]
    rules = [{"name": name, "backendRefs": [{"name": "web", "port": 80}]} for name in names]
    patterns = [[f"[{letter}-z]{{{640 + number}}}" for letter in "ab"] for number in range(len(names))]
    policies = [
        cache_policy(name, section=name, bypass={"headers": [{"name": "x", "valueRegex": one} for one in its]})
        for name, its in zip(names, patterns, strict=True)
    ]
    translator = started(gateway(), service(), route(rules=rules), *policies[:8])
    delta = translator.update(keyed(*policies[8:]))
    assert all(cache.off for cache in rule_caches(delta))
    assert "more than the budget of 1,048,576" in message(delta, names[-1])
    assert "more than the budget of 1,048,576" in message(delta, names[0]), "its status changes too"
    assert delta.statuses[WEB].parents[0].conditions[0].status == "True"
    fewer = rule_caches(translator.update(dict.fromkeys(keyed(*policies[8:]))))
    assert [cache and cache.off for cache in fewer] == [False] * 8 + [None] * 8


def test_patterns_of_all_policies_of_a_namespace_have_a_budget_on_each_gateway():
    """The youngest has to give way, and is back when there is room."""
    routes = [route(name) for name in ("a", "b")]
    policies = [
        cache_policy(name, target=name, metadata=age, bypass={"headers": [{"name": "x", "valueRegex": f"{name}+"}]})
        for name, age in (("a", OLD), ("b", YOUNG))
    ]
    translator = started(gateway(), service(), *routes, *policies[:1], namespace_regexes=2_000)
    delta = translator.update(keyed(policies[1]))
    assert rule_caches(delta, Key("HTTPRoute", "default", "b"))[0].off
    assert accepted(delta, "b") == [("False", "Invalid")]
    assert "2,000 bytes that a namespace has" in message(delta, "b")
    went = translator.update({api.key_of(policies[0]): None})
    assert not rule_caches(went, Key("HTTPRoute", "default", "b"))[0].off
    assert accepted(went, "b") == [("True", "Accepted")]


# -- compiled elsewhere ---------------------------------------------------------------------


def test_new_policy_is_off_until_its_patterns_are_compiled():
    translator = started(compiles=False)
    policy = cache_policy(**GLOBS)
    came = translator.update(keyed(policy))
    assert came.uncompiled == {POLICY: policy}
    assert [cache.off for cache in rule_caches(came)] == [True, True]
    assert accepted(came) == [("Unknown", "Pending")]
    compiled = translator.update({compiled_key(POLICY): compile_object(policy)})
    assert compiled.uncompiled == {POLICY: None}
    assert ttls(rule_caches(compiled)) == [60_000, 60_000]
    assert accepted(compiled) == [("True", "Accepted")]


def test_changed_policy_keeps_its_previous_version_until_the_new_one_is_compiled():
    translator = started(compiles=False)
    policy, changed = cache_policy(**GLOBS), cache_policy(defaultTTL="2s", **GLOBS)
    translator.update(keyed(policy))
    translator.update({compiled_key(POLICY): compile_object(policy)})
    delta = translator.update(keyed(changed))
    assert delta == ir.Delta(uncompiled={POLICY: changed})
    assert ttls(rule_caches(translator.update({compiled_key(POLICY): compile_object(changed)}))) == [2000, 2000]
    assert translator.update({POLICY: None}).released == {POLICY}


def test_policy_without_patterns_is_in_force_at_once():
    delta = started(compiles=False).update(keyed(cache_policy()))
    assert ttls(rule_caches(delta)) == [60_000, 60_000]
    assert delta.uncompiled == {}


UNPLACED = (
    (gateway(), service()),
    (gateway(), service(), route("web", parentRefs=[{"name": "gw", "sectionName": "gone"}])),
    (gateway(gatewayClassName="foreign"), service(), route()),
)


@pytest.mark.parametrize("objects", UNPLACED, ids=["no-route", "unattached-route", "foreign-gateway"])
@pytest.mark.parametrize("compiles", [False, True])
def test_patterns_of_a_policy_are_compiled_once_its_target_is_attached(objects, compiles, monkeypatch):
    """Otherwise users without a right to any Gateway could take the time of the thread that compiles."""
    compilations: list[bytes] = []
    monkeypatch.setattr(cache_patterns, "compile_cache_policy", lambda text: (compilations.append(text) or 1, None))
    translator = Translator(assume_class=True, compiles=compiles)
    policy = cache_policy(**GLOBS)
    assert translator.update(keyed(*objects, policy)).uncompiled == {}
    assert compilations == []
    placed = translator.update(keyed(gateway(), route()))
    assert placed.uncompiled == ({} if compiles else {POLICY: policy})
    assert bool(compilations) == compiles
    assert accepted(placed) == [("True", "Accepted") if compiles else ("Unknown", "Pending")]
    assert translator.update({WEB: None}).released == {POLICY}


def test_policy_of_a_listener_set_that_is_not_allowed_is_not_compiled():
    translator = started(gateway(), listener_set("set", namespace="team"), compiles=False)
    delta = translator.update(keyed(cache_policy("own", "team", kind="ListenerSet", target="set", **GLOBS)))
    assert delta.uncompiled == {}
    assert accepted(delta, "own", "team") == [("Unknown", "Pending")]
    assert "attached to no listener" in message(delta, "own", "team")


# -- order of layers ------------------------------------------------------------------------


REGEX = [{"matches": [{"path": {"type": "RegularExpression", "value": "/a[a-z]{3}x"}}]}]
OLDER_ROUTE = route("older", rules=REGEX, metadata=OLD)
YOUNGER_POLICY = cache_policy(kind="Gateway", target="gw", metadata=YOUNG, **GLOBS)
ONLY_ONE = max(sum(compile_matches(OLDER_ROUTE).charges.values()), compile_object(YOUNGER_POLICY).charge)


def test_policy_of_a_gateway_gives_way_to_an_older_route_and_comes_back():
    """The route is charged after the policy was in force: status and traffic follow together."""
    translator = started(gateway(), YOUNGER_POLICY, namespace_regexes=ONLY_ONE)
    delta = translator.update(keyed(OLDER_ROUTE))
    assert [cache.off for cache in listener_caches(delta)] == [True]
    assert accepted(delta) == [("False", "Invalid")]
    freed = translator.update({api.key_of(OLDER_ROUTE): None})
    assert [cache.off for cache in listener_caches(freed)] == [False]
    assert accepted(freed) == [("True", "Accepted")]


def test_layer_that_changes_what_an_earlier_one_has_read_is_an_error():
    late = [layer for layer in LAYERS if layer is not versions.LAYER]
    at = late.index(http_route.LAYER)
    translator = Translator([*late[:at], versions.LAYER, *late[at:]], assume_class=True, namespace_regexes=ONLY_ONE)
    translator.update(keyed(gateway(), YOUNGER_POLICY))
    with pytest.raises(AssertionError, match="which an earlier layer reads"):
        translator.update(keyed(OLDER_ROUTE))


# -- weights --------------------------------------------------------------------------------


def weighted(delta: ir.Delta, name: str = "cache") -> str | None:
    (ancestor,) = delta.statuses[Key("VarnishCachePolicy", "default", name)].ancestors
    return next((one.message for one in ancestor.conditions if one.type.endswith("/WeightedBackends")), None)


def test_weighted_backends_are_reported_while_there_are_any():
    split = [{"backendRefs": [{"name": "web", "port": 80}, {"name": "api", "port": 80}]}]
    translator = started(gateway(), service(), service("api"), route(), cache_policy())
    came = translator.update(keyed(route(rules=split)))
    assert "rule 0 of HTTPRoute default/web" in weighted(came)
    assert weighted(translator.update(keyed(route()))) is None


def test_weighted_backends_under_a_gateway_policy_are_counted():
    split = [{"backendRefs": [{"name": "web", "port": 80}, {"name": "api", "port": 80}]}]
    routes = [route(f"r{number}", rules=split) for number in range(5)]
    policy = cache_policy(kind="Gateway", target="gw")
    translator = started(gateway(), service(), service("api"), *routes)
    came = translator.update(keyed(policy))
    assert "HTTPRoute default/r0, HTTPRoute default/r1, HTTPRoute default/r2, and more" in weighted(came)
    own = translator.update(keyed(cache_policy("own", target="r0")))
    assert "HTTPRoute default/r1, HTTPRoute default/r2, HTTPRoute default/r3, and more" in weighted(own)
    assert POLICY not in translator.update(keyed(route("r9", rules=split))).statuses, "no count that changes with it"


def test_weighted_backends_of_a_route_are_reported_by_the_policies_in_force_for_it_alone():
    split = [{"backendRefs": [{"name": "web", "port": 80}, {"name": "api", "port": 80}]}]
    tenants = [f"tenant-{number}" for number in range(3)]
    own = [cache_policy("own", name, kind="ListenerSet", target="set") for name in tenants]
    sets = [set_of(name, 1) for name in tenants]
    translator = started(
        OPEN_GATEWAY, service(), service("api"), *sets, *own, cache_policy(kind="Gateway", target="gw")
    )
    on_gateway = translator.update(keyed(route("canary", rules=split)))
    assert [key.name for key in on_gateway.statuses if key.kind == "VarnishCachePolicy"] == ["cache"]
    assert "HTTPRoute default/canary;" in weighted(on_gateway)
    parents = [{"kind": "ListenerSet", "name": "set"}]
    services = (service("web", tenants[0]), service("api", tenants[0]))
    on_set = translator.update(keyed(*services, route("own", tenants[0], rules=split, parentRefs=parents)))
    changed = [key for key in on_set.statuses if key.kind == "VarnishCachePolicy"]
    assert changed == [Key("VarnishCachePolicy", tenants[0], "own")]


# -- costs ----------------------------------------------------------------------------------


def test_change_of_one_policy_among_5000_recomputes_only_what_it_touches():
    computed: list[tuple[str, str]] = []

    def recorded(layer: Layer) -> Layer:
        def compute(key: Key, *args: object) -> object:
            computed.append((layer.table.name, key.name))
            return layer.compute(key, *args)

        return structs.replace(layer, compute=compute)

    translator = Translator([recorded(layer) for layer in LAYERS], assume_class=True)
    number = 5_000
    routes = [route(f"r{each}") for each in range(number)]
    policies = [cache_policy(f"p{each}", target=f"r{each}", **GLOBS) for each in range(number)]
    translator.update(keyed(gateway(), service(), *routes, *policies))
    computed.clear()
    delta = translator.update(keyed(cache_policy("p7", target="r7", defaultTTL="5s", **GLOBS)))
    assert {name for _, name in computed} == {"p7", "r7"}
    assert len(computed) == len(set(computed)), "each once"
    assert list(delta.gateways[GW].routes) == [Key("HTTPRoute", "default", "r7")]
    assert (delta.gateways[GW].listeners, delta.gateways[GW].user_vcl) == (None, UNSET)
    computed.clear()
    delta = translator.update(keyed(cache_policy(kind="Gateway", target="gw")))
    assert {name for _, name in computed} == {"cache", "gw"}, "no route"
    assert delta.gateways[GW].routes == {}


def test_deleted_policies_leave_nothing_behind():
    translator = started(*WORLD, grant("team"))
    policies = keyed(cache_policy(**GLOBS), cache_policy("gateway", kind="Gateway", target="gw"))
    before = {kind: set(translator.referenced(kind)) for kind in ("HTTPRoute", "Gateway", "VarnishCachePolicy of")}
    translator.update(policies)
    translator.update(dict.fromkeys(policies))
    assert {kind: set(translator.referenced(kind)) for kind in before} == before


def test_listeners_are_recomputed_for_policies_of_their_gateway_alone():
    layers, computed = recording(effective_gateway.LAYER)
    translator = Translator(layers, assume_class=True)
    translator.update(keyed(*WORLD))
    computed.clear()
    translator.update(keyed(cache_policy()))
    assert computed == []
