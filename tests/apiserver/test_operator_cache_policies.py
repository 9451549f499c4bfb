"""Cache policies in a cluster: what pods get of them, and what users read."""

from support.kube.documents import cache_policy, route, service


def cached(harness) -> list[tuple[str, bool]]:
    """Return name and off of the policies that the rules of all routes carry."""
    rules = [rule for one in harness.routing().routes for rule in one.rules]
    return [(rule.cache.name, rule.cache.off) for rule in rules if rule.cache is not None]


def accepted(harness, name: str) -> tuple[str, str, int] | None:
    ancestors = harness.get("VarnishCachePolicy", name).get("status", {}).get("ancestors", [])
    found = [one for entry in ancestors for one in entry["conditions"] if one["type"] == "Accepted"]
    return (found[0]["status"], found[0]["reason"], found[0]["observedGeneration"]) if found else None


def test_policy_reaches_the_pods_and_its_status_and_events_say_how_it_fares(harness):
    namespace = harness.namespace
    harness.gateway()
    harness.put(service(namespace, "web"), route(namespace, "r1", "gw"))
    policy = cache_policy(namespace, "HTTPRoute", "r1", defaultTTL="1m", bypass={"cookies": ["session*"]})
    harness.put(policy)
    harness.wait_for(lambda: accepted(harness, "httproute-r1") == ("True", "Accepted", 1), "an accepted policy")
    harness.wait_for(lambda: cached(harness) == [(f"{namespace}/httproute-r1", False)], "the policy on its rule")
    types = [one["type"] for one in harness.parents("r1")[0]["conditions"]]
    assert "gateway.varnish-software.com/VarnishCachePolicyAffected" in types

    policy["spec"]["bypass"] = {"headers": [{"name": "x-debug", "valueRegex": "("}]}
    harness.put(policy)
    harness.wait_for(lambda: accepted(harness, "httproute-r1") == ("False", "Invalid", 2), "an invalid policy")
    harness.wait_for(lambda: cached(harness) == [(f"{namespace}/httproute-r1", True)], "a policy that is off")
    event = harness.wait_for(lambda: harness.events("httproute-r1").get("Invalid"), "an Event")
    assert "bypass.headers[0].valueRegex" in event["message"]

    harness.delete("VarnishCachePolicy", "httproute-r1")
    harness.wait_for(lambda: cached(harness) == [], "no policy")
    harness.wait_for(
        lambda: [one["type"] for one in harness.parents("r1")[0]["conditions"]] == ["Accepted", "ResolvedRefs"],
        "a route without a trace of it",
    )


def test_policy_of_a_gateway_is_on_its_listeners_and_one_without_a_target_says_so(harness):
    namespace = harness.namespace
    harness.gateway()
    harness.put(cache_policy(namespace, "Gateway", "gw"), cache_policy(namespace, "HTTPRoute", "absent"))
    name = f"{namespace}/gateway-gw"
    harness.wait_for(
        lambda: [one.cache and one.cache.name for one in harness.routing().listeners] == [name], "a cached listener"
    )
    harness.wait_for(lambda: accepted(harness, "httproute-absent") == ("False", "TargetNotFound", 1), "a status")
    harness.wait_for(
        lambda: "gateway.varnish-software.com/VarnishCachePolicyAffected" in harness.conditions("Gateway"),
        "the Gateway's condition",
    )
    harness.delete("VarnishCachePolicy", "gateway-gw")
    harness.wait_for(
        lambda: "gateway.varnish-software.com/VarnishCachePolicyAffected" not in harness.conditions("Gateway"),
        "no such condition",
    )
