"""The metrics of the cache: its fill level, and what left it.

In:   varnishd's counters.
Out:  lines for /metrics. Pure.
"""

from collections.abc import Iterator, Mapping

from varnish_gateway.dataplane.varnish.counters import STORES
from varnish_gateway.runtime.prometheus import family

_BY_STORE = (  # name, type, help, field of varnishd
    ("vgw_cache_used_bytes", "gauge", "Bytes that a store of varnishd holds.", "g_bytes"),
    ("vgw_cache_free_bytes", "gauge", "Bytes that are free in a store.", "g_space"),
    ("vgw_cache_full_total", "counter", "Allocations that found no room in a store.", "c_fail"),
)
_OF_ALL = (
    ("vgw_cache_objects", "gauge", "Objects of all stores.", "MAIN.n_object"),
    ("vgw_cache_expired_total", "counter", "Objects that left the cache because of their age.", "MAIN.n_expired"),
    ("vgw_cache_evictions_total", "counter", "Objects that left the cache to make room.", "MAIN.n_lru_nuked"),
    ("vgw_cache_eviction_limits_total", "counter", "Fetches that evictions made no room for.", "MAIN.n_lru_limited"),
)


def cache_lines(counters: Mapping[str, int]) -> Iterator[str]:
    """Yield every metric; counters that this varnishd doesn't have are left out."""
    stores = _stores(counters)
    for name, kind, help_text, field in _BY_STORE:
        samples = [({"store": store}, values[field]) for store, values in stores.items() if field in values]
        yield from family(name, kind, help_text, samples)
    for name, kind, help_text, counter in _OF_ALL:
        yield from family(name, kind, help_text, [({}, counters[counter])] if counter in counters else [])


def _stores(counters: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Return the counters by store. One without a limit has no room to tell: varnishd counts it as 0."""
    found: dict[str, dict[str, int]] = {}
    for name, value in counters.items():
        kind, _, rest = name.partition(".")
        if kind in STORES:
            store, _, field = rest.rpartition(".")
            found.setdefault(store, {})[field] = value
    for values in found.values():
        if values.get("g_space") == 0 and not values.get("c_fail"):
            del values["g_space"]
    return found
