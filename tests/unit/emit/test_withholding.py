"""Routes and request rules for pods that don't understand all of the wire format."""

import pytest
from msgspec import json, structs

from support import previous
from support.builders.desired import route
from varnish_gateway.emit.withholding import listeners_without, needed_by, requests_without, route_without
from varnish_gateway.ir import wire
from varnish_gateway.ir.capabilities import ALL, APPROXIMATE_RULES, CACHE_POLICIES, MANY_RETRIES, REQUEST_RULES

REGEX = (wire.Match(path=wire.PathMatch(type="regex", value="/tea.*")),)
LEFT = wire.Rule(matches=REGEX, status=500, approximate=True)
PERSISTENT = wire.Rule(name="persistent", retry=wire.Retry(attempts=1000))
CACHED = wire.Rule(name="cached", cache=wire.CachePolicy(name="shop/tea", default_ttl=60_000))
RULES = wire.RequestRules(merge_slashes=True, reject=("%2F",))


def with_rules(*rules: wire.Rule) -> wire.Route:
    return structs.replace(route("tea"), rules=rules)


def test_route_that_needs_nothing_new_is_the_same_object():
    plain = route("tea")
    assert route_without(plain, ALL) is plain
    assert needed_by(plain, ALL) == frozenset()


def test_invalid_rules_follow_valid_ones_without_their_mark():
    """On a tie the first rule serves, so a valid one has to be first."""
    valid = wire.Rule(name="valid")
    given = with_rules(LEFT, valid)
    assert route_without(given, [APPROXIMATE_RULES.name]).rules == (valid, structs.replace(LEFT, approximate=False))
    assert needed_by(given, ALL) == {APPROXIMATE_RULES.name}


def test_retries_beyond_the_limit_of_the_previous_version_are_cut():
    given = with_rules(wire.Rule(), PERSISTENT, wire.Rule(retry=wire.Retry(attempts=20)))
    attempts = [rule.retry and rule.retry.attempts for rule in route_without(given, ALL).rules]
    assert attempts == [None, 20, 20]
    assert needed_by(given, ALL) == {MANY_RETRIES.name}


def test_nothing_is_cached_without_cache_policies():
    given = with_rules(wire.Rule(), CACHED)
    assert [rule.cache for rule in route_without(given, [CACHE_POLICIES.name]).rules] == [None, None]
    assert needed_by(given, ALL) == {CACHE_POLICIES.name}


def test_listeners_lose_their_cache_policy_and_nothing_else():
    plain = wire.Listener(name="plain", socket="http-80")
    cached = wire.Listener(name="cached", socket="http-80", cache=CACHED.cache)
    without = structs.replace(cached, cache=None)
    assert listeners_without((plain, cached), [CACHE_POLICIES.name]) == (plain, without)
    given = (plain, without)
    assert listeners_without(given, ALL) is given


@pytest.mark.parametrize("lacking", [[], [MANY_RETRIES.name]])
def test_request_rules_stay_where_pods_understand_them(lacking):
    assert requests_without(RULES, lacking) == RULES


def test_request_rules_are_left_out_as_a_whole():
    assert requests_without(RULES, [REQUEST_RULES.name]) == wire.RequestRules()
    assert requests_without(None, ALL) is None, "unchanged rules stay unchanged"


def test_previous_version_reads_what_is_expressed_without_all_capabilities():
    given = with_rules(LEFT, PERSISTENT, CACHED)
    assert "approximate" in json.encode(given).decode()
    text = json.encode(route_without(given, ALL))
    assert [rule.name for rule in json.decode(text, type=previous.wire().Route).rules] == [
        "persistent",
        "cached",
        None,
    ]
