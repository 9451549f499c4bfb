from varnish_gateway.dataplane import events
from varnish_gateway.dataplane.change import ServingState
from varnish_gateway.dataplane.metrics import EventCounters, page

SERVED = ServingState(
    ready=True,
    reason="",
    configuration="c",
    vcl="v",
    generation="1",
    sockets=(),
    up_to_date=False,
    problems=("x",),
)
COUNTS = {
    "requests": 3,
    "hits": 1,
    "misses": 2,
    "passes": 0,
    "status": {"2xx": 3},
    "latency": {"buckets": [{"le": 0.001, "count": 2}], "count": 3, "sum": 0.5},
}


def test_events_and_routes_are_counted():
    counters = EventCounters()
    counters(events.Reloaded(id="a", seconds=0.1))
    counters(events.Reloaded(id="b", seconds=0.1))
    lines = page(counters, SERVED, {"routes": {"default/tea": COUNTS}, "unrouted": {}, "overBudget": 4}).splitlines()
    assert "vgw_reloads_total 2" in lines
    assert "vgw_vcl_failures_total 0" in lines
    assert "vgw_ready 1" in lines
    assert "vgw_regex_budget_exceeded_total 4" in lines
    assert "vgw_up_to_date 0" in lines
    assert 'vgw_route_requests_total{route="default/tea"} 3' in lines
    assert 'vgw_route_requests_total{route=""} 0' in lines
    assert 'vgw_route_responses_total{route="default/tea",class="2xx"} 3' in lines
    assert 'vgw_route_latency_seconds_bucket{route="default/tea",le="0.001"} 2' in lines
    assert 'vgw_route_latency_seconds_bucket{route="default/tea",le="+Inf"} 3' in lines
    assert 'vgw_route_latency_seconds_sum{route="default/tea"} 0.5' in lines


def test_index_of_the_cache_is_published():
    held = {"objects": 2, "tags": 3, "shapes": 7, "bytes": 4, "limit": 5, "broken": 1}
    index = {**held, "refused": {"index-full": 6, "too-many-tags": 0}}
    lines = page(EventCounters(), SERVED, {"index": index}).splitlines()
    assert "vgw_cache_index_objects 2" in lines
    assert "vgw_cache_index_tags 3" in lines
    assert "vgw_cache_index_shapes 7" in lines
    assert "vgw_cache_index_bytes 4" in lines
    assert "vgw_cache_index_limit_bytes 5" in lines
    assert "vgw_cache_index_broken 1" in lines
    assert 'vgw_cache_index_refused_total{reason="index-full"} 6' in lines
    assert 'vgw_cache_index_refused_total{reason="too-many-tags"} 0' in lines


def test_requests_that_invalidate_are_published_by_result():
    lines = page(EventCounters(), SERVED, {"purges": {"done": 3, "denied": 1}}).splitlines()
    assert 'vgw_purge_requests_total{result="done"} 3' in lines
    assert 'vgw_purge_requests_total{result="denied"} 1' in lines


def test_metrics_without_ghost_have_the_other_families():
    assert "vgw_route" not in page(EventCounters(), SERVED, None)
