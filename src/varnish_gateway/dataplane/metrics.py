"""Prometheus' text format.

In:   events (as a subscriber of the bus), what serves, and ghost's counters.
Out:  the page for /metrics.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from varnish_gateway.dataplane import events
from varnish_gateway.dataplane.change import ServingState
from varnish_gateway.dataplane.tls import metrics as tls_metrics
from varnish_gateway.runtime.prometheus import family, histogram

RELOAD_FAILURES = ("vgw_reload_failures_total", "Configurations that ghost rejected, or files with an error.")
_COUNTED: Mapping[type[events.Event], tuple[str, str]] = {
    events.Reloaded: ("vgw_reloads_total", "Configurations that ghost took."),
    events.ReloadFailed: RELOAD_FAILURES,
    events.VclLoaded: ("vgw_vcl_loads_total", "VCLs that came into use."),
    events.VclFailed: ("vgw_vcl_failures_total", "VCLs that varnishd rejected."),
    events.ChildDied: ("vgw_worker_deaths_total", "Workers of varnishd that died."),
    events.VarnishdExited: ("vgw_varnishd_deaths_total", "Managers of varnishd that died."),
    **tls_metrics.COUNTED,
    events.Restarting: ("vgw_varnishd_restarts_total", "Restarts that we asked for."),
    events.Invalidated: ("vgw_invalidations_total", "Invalidations that clients asked for and ghost carried out."),
    events.Fault: ("vgw_faults_total", "Attempts that failed because of a fault and were repeated."),
}
_INDEX = (
    ("objects", "objects", "Objects in the index of the cache."),
    ("tags", "tags", "Tags of all these objects."),
    ("shapes", "shapes", "Sets of ignored query parameters that these objects have."),
    ("bytes", "bytes", "Bytes that the index takes."),
    ("limit", "limit_bytes", "Bytes that the index may take."),
    ("broken", "broken", "1 after a fault in the index: until varnishd restarts, nothing is stored or used."),
)
_ROUTE_COUNTERS = ("requests", "hits", "misses", "passes", "loops", "rejections")


class EventCounters:
    """Counts the events that the bus publishes."""

    def __init__(self) -> None:
        self._counts: Counter[type[events.Event]] = Counter()

    def __call__(self, event: events.Event) -> None:
        self._counts[type(event)] += 1

    def lines(self) -> Iterator[str]:
        for kind, (name, help_text) in _COUNTED.items():
            yield from family(name, "counter", help_text, [({}, self._counts[kind])])


def page(counters: EventCounters, served: ServingState, ghost: Mapping[str, Any] | None) -> str:
    """Return the whole page; ``ghost`` is None while its counters can't be read."""
    lines = [*counters.lines()]
    lines += family("vgw_ready", "gauge", "1 while traffic is served.", [({}, int(served.ready))])
    lines += up_to_date(is_so=served.up_to_date)
    help_text = "Backends of routes that can't have endpoints: no EndpointSlice, or none with the port's name."
    lines += family("vgw_unserved_backends", "gauge", help_text, [({}, served.unserved.count)])
    if ghost is not None:
        lines += route_lines(ghost)
        lines += family(
            "vgw_regex_budget_exceeded_total",
            "counter",
            "Requests that routes or a cache policy take too many steps for.",
            [({}, ghost.get("overBudget", 0))],
        )
        lines += purge_lines(ghost.get("purges", {}))
        lines += worker_lines(ghost)
        lines += index_lines(ghost.get("index", {}))
    return "\n".join(lines) + "\n"


def up_to_date(*, is_so: bool) -> Iterator[str]:
    return family("vgw_up_to_date", "gauge", "1 while the newest configuration serves.", [({}, int(is_so))])


def worker_lines(ghost: Mapping[str, Any]) -> Iterator[str]:
    """Workers of varnishd, and requests that were rejected by the share that was exhausted."""
    workers = ghost.get("workers", {})
    yield from family("vgw_workers", "gauge", "Workers that requests hold.", [({}, workers.get("held", 0))])
    yield from family("vgw_workers_limit", "gauge", "Workers that requests may hold.", [({}, workers.get("limit", 0))])
    rejections = [({"share": share}, count) for share, count in ghost.get("rejections", {}).items()]
    yield from family(
        "vgw_share_rejections_total", "counter", "Requests that were rejected by an exhausted share.", rejections
    )


def purge_lines(purges: Mapping[str, int]) -> Iterator[str]:
    """Return how many clients asked for invalidations on the sockets of listeners, by what became of that."""
    samples = [({"result": result}, count) for result, count in purges.items()]
    yield from family("vgw_purge_requests_total", "counter", "PURGE, BAN and PURGEKEYS requests.", samples)


def index_lines(index: Mapping[str, Any]) -> Iterator[str]:
    """Return what the index of cached objects holds, and the responses that it had no place for, by reason."""
    for field, name, help_text in _INDEX:
        yield from family(f"vgw_cache_index_{name}", "gauge", help_text, [({}, index.get(field, 0))])
    refused = [({"reason": reason}, count) for reason, count in index.get("refused", {}).items()]
    yield from family("vgw_cache_index_refused_total", "counter", "Responses that the index had no place for.", refused)


def route_lines(ghost: Mapping[str, Any]) -> Iterator[str]:
    """Per-route counters; requests that no route took have the route ""."""
    routes: dict[str, Mapping[str, Any]] = {**ghost.get("routes", {}), "": ghost.get("unrouted", {})}
    for name in _ROUTE_COUNTERS:
        samples = [({"route": route}, counts.get(name, 0)) for route, counts in routes.items()]
        yield from family(f"vgw_route_{name}_total", "counter", f"{name.capitalize()} of a route.", samples)
    classes = [
        ({"route": route, "class": status}, count)
        for route, counts in routes.items()
        for status, count in counts.get("status", {}).items()
    ]
    yield from family("vgw_route_responses_total", "counter", "Responses of a route by status class.", classes)
    latencies = [({"route": route}, counts["latency"]) for route, counts in routes.items() if counts.get("latency")]
    yield from histogram("vgw_route_latency_seconds", "Time from request to response of a route.", latencies)
