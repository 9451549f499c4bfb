"""Which routes the metrics of the cache have, and what they say."""

import re
from collections.abc import Mapping

import pytest

from varnish_gateway.dataplane.ghost.metrics import CachedRoutes, eviction_lines


def counts(requests: int) -> dict:
    return {
        "requests": {"hit": requests, "miss": 0},
        "stored": 2,
        "revalidated": 3,
        "uncacheable": {"private": 4},
        "bytes": {"cache": 5, "origin": 6},
    }


def counters(**requests: int) -> dict:
    """Return ghost's counters of routes with so many requests under one policy."""
    return {"routes": {f"n/{name}": {"cache": {"n/pages": counts(count)}} for name, count in requests.items()}}


def scraped(routes: CachedRoutes, ghost: Mapping) -> tuple[set[str], int]:
    """Return the routes of a scrape, and how many were left out so far."""
    lines = list(routes.lines(ghost))
    (dropped,) = [line for line in lines if line.startswith("vgw_route_cache_dropped_total ")]
    names = {found for line in lines for found in re.findall(r'\{route="n/(\w+)"', line)}
    return names, int(dropped.split()[1])


def test_route_has_a_sample_for_each_counter_of_a_policy():
    lines = list(CachedRoutes(1).lines(counters(tea=1)))
    labels = 'route="n/tea",policy="n/pages"'
    assert [line for line in lines if not line.startswith("#")] == [
        f'vgw_route_cache_requests_total{{{labels},result="hit"}} 1',
        f'vgw_route_cache_requests_total{{{labels},result="miss"}} 0',
        f"vgw_route_cache_stored_total{{{labels}}} 2",
        f"vgw_route_cache_revalidated_total{{{labels}}} 3",
        f'vgw_route_cache_uncacheable_total{{{labels},reason="private"}} 4',
        f'vgw_route_cache_bytes_total{{{labels},source="cache"}} 5',
        f'vgw_route_cache_bytes_total{{{labels},source="origin"}} 6',
        "vgw_route_cache_dropped_total 0",
    ]


def test_route_without_a_request_under_a_policy_has_none():
    assert scraped(CachedRoutes(9), {"routes": {"n/tea": {"cache": {}}, "n/cup": {}}}) == (set(), 0)


def test_routes_with_the_most_requests_win():
    assert scraped(CachedRoutes(2), counters(a=1, b=300, c=20)) == ({"b", "c"}, 1)


def test_equal_routes_are_taken_in_the_order_of_their_names():
    assert scraped(CachedRoutes(2), counters(c=1, b=1, a=1)) == ({"a", "b"}, 1)


def test_each_policy_of_a_route_counts():
    ghost = {"routes": {"n/tea": {"cache": {"n/one": counts(1), "n/two": counts(2)}}}}
    lines = "\n".join(CachedRoutes(1).lines(ghost))
    assert ('policy="n/two"' in lines, 'policy="n/one"' in lines) == (True, False)


def test_published_route_stays_until_another_has_clearly_more_requests():
    routes = CachedRoutes(1)
    assert scraped(routes, counters(a=100, b=99))[0] == {"a"}
    assert scraped(routes, counters(a=100, b=124))[0] == {"a"}
    assert scraped(routes, counters(a=100, b=126))[0] == {"b"}
    assert scraped(routes, counters(a=150, b=126))[0] == {"b"}
    assert scraped(routes, counters(a=160, b=126))[0] == {"a"}


def test_route_that_is_left_out_counts_once():
    routes = CachedRoutes(1)
    assert [scraped(routes, counters(a=9, b=1, c=1))[1] for _ in range(3)] == [2, 2, 2]
    assert scraped(routes, counters(a=9, b=1, c=1, d=1))[1] == 3
    assert scraped(routes, counters(a=9, b=90, c=1, d=1)) == ({"b"}, 4)


@pytest.mark.parametrize(("limit", "expected"), [(0, (set(), 1)), (1, ({"a"}, 0))])
def test_limit_may_be_zero_and_may_change(limit, expected):
    routes = CachedRoutes(5)
    routes.limit = limit
    assert scraped(routes, counters(a=1)) == expected


def test_times_of_evicted_objects_are_a_histogram():
    times = {"buckets": [{"le": 1.0, "count": 2}], "count": 3, "sum": 9.5}
    assert [line for line in eviction_lines({"evicted": times}) if not line.startswith("#")] == [
        'vgw_cache_evicted_unused_seconds_bucket{le="1.0"} 2',
        'vgw_cache_evicted_unused_seconds_bucket{le="+Inf"} 3',
        "vgw_cache_evicted_unused_seconds_sum 9.5",
        "vgw_cache_evicted_unused_seconds_count 3",
    ]
