"""The metrics of cached routes: what the cache did for each of them, by policy.

In:   ghost's counters.
Out:  lines for /metrics: of the routes with the most requests, up to a limit, and how many were left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from varnish_gateway.runtime.prometheus import family, histogram

LEAD = 1.25
"""So many times the requests of a published route have to come to another one that is to replace it.

A series that comes and goes with each scrape says little.
"""
Pair = tuple[str, str]
"""A route and the policy that applied."""
Counts = Mapping[str, Any]

_BY_PAIR = (  # name, help, field of ghost, its label
    ("requests", "Requests under a cache policy by what the cache did.", "requests", "result"),
    ("stored", "Responses of origins that were stored.", "stored", ""),
    ("revalidated", "Stored responses that their origin confirmed.", "revalidated", ""),
    ("uncacheable", "Responses of origins that were not stored.", "uncacheable", "reason"),
    ("bytes", "Bytes of bodies that clients got.", "bytes", "source"),
)


class CachedRoutes:
    """Chooses the pairs to publish. A route without a request under a policy has none."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._published: frozenset[Pair] = frozenset()
        self._left_out: frozenset[Pair] = frozenset()
        self._dropped = 0

    def lines(self, ghost: Mapping[str, Any]) -> Iterator[str]:
        """Yield the metrics of one scrape."""
        pairs = _pairs(ghost)
        chosen = self._choose({pair: _requests(counts) for pair, counts in pairs.items()})
        for name, help_text, field, label in _BY_PAIR:
            samples = [sample for pair in chosen for sample in _samples(pair, pairs[pair][field], label)]
            yield from family(f"vgw_route_cache_{name}_total", "counter", help_text, samples)
        help_text = "Routes and policies that were left out, each when that began."
        yield from family("vgw_route_cache_dropped_total", "counter", help_text, [({}, self._dropped)])

    def _choose(self, requests: Mapping[Pair, int]) -> list[Pair]:
        def rank(pair: Pair) -> tuple[float, Pair]:
            return -requests[pair] * (LEAD if pair in self._published else 1), pair

        ranked = sorted(requests, key=rank)
        chosen, left_out = ranked[: self.limit], frozenset(ranked[self.limit :])
        self._dropped += len(left_out - self._left_out)
        self._published, self._left_out = frozenset(chosen), left_out
        return sorted(chosen)


def eviction_lines(ghost: Mapping[str, Any]) -> Iterator[str]:
    """Yield how long evicted objects had not been used."""
    samples: list[tuple[Mapping[str, str], Counts]] = [({}, ghost["evicted"])] if "evicted" in ghost else []
    yield from histogram("vgw_cache_evicted_unused_seconds", "How long evicted objects had not been used.", samples)


def _pairs(ghost: Mapping[str, Any]) -> dict[Pair, Counts]:
    return {
        (route, policy): counts
        for route, of_route in ghost.get("routes", {}).items()
        for policy, counts in of_route.get("cache", {}).items()
    }


def _requests(counts: Counts) -> int:
    return sum(counts["requests"].values())


def _samples(pair: Pair, value: int | Mapping[str, int], label: str) -> Sequence[tuple[dict[str, str], int]]:
    labels = dict(zip(("route", "policy"), pair, strict=True))
    if isinstance(value, int):
        return [(labels, value)]
    return [({**labels, label: word}, count) for word, count in value.items()]
