"""Counters of the Kubernetes client.

In:   reports of clients and reflectors.
Out:  lines for /metrics.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from varnish_gateway.runtime.prometheus import family


class Metrics:
    """Shared by all clients and reflectors of a process."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()
        """By verb, kind and status; 0 is no answer."""
        self.seconds: Counter[tuple[str, str]] = Counter()
        self.answers: Counter[tuple[str, str]] = Counter()
        self.throttled_seconds = 0.0
        self.retries: Counter[str] = Counter()
        self.watch_restarts: Counter[str] = Counter()
        self.relists: Counter[str] = Counter()
        self.objects: Counter[str] = Counter()
        self.undecodable: Counter[str] = Counter()
        self.events_dropped = 0

    def answered(self, verb: str, kind: str, status: int, seconds: float) -> None:
        """Count one attempt."""
        self.requests[verb, kind, status] += 1
        self.seconds[verb, kind] += seconds  # type: ignore[assignment] # a Counter adds any number
        self.answers[verb, kind] += 1

    def lines(self) -> Iterator[str]:
        requests = [
            ({"verb": verb, "kind": kind, "code": str(status)}, count)
            for (verb, kind, status), count in self.requests.items()
        ]
        yield from family("vgw_kube_requests_total", "counter", "Requests to the API server; 0: no answer.", requests)
        for name, counts in (("sum", self.seconds), ("count", self.answers)):
            samples = [({"verb": verb, "kind": kind}, value) for (verb, kind), value in counts.items()]
            help_text = f"Time until the API server answered ({name})."
            yield from family(f"vgw_kube_request_seconds_{name}", "counter", help_text, samples)
        yield from self._plain()
        yield from self._by_kind()

    def _plain(self) -> Iterator[str]:
        plain = (
            ("vgw_kube_throttled_seconds_total", self.throttled_seconds, "Time waited for our own rate limit."),
            ("vgw_kube_events_dropped_total", self.events_dropped, "Events that were not written."),
        )
        for name, value, help_text in plain:
            yield from family(name, "counter", help_text, [({}, value)])

    def _by_kind(self) -> Iterator[str]:
        counters = (
            ("vgw_kube_retries_total", self.retries, "Requests that were retried."),
            (
                "vgw_kube_watch_restarts_total",
                self.watch_restarts,
                "Watches that were restarted.",
            ),
            ("vgw_kube_relists_total", self.relists, "Full lists after the first."),
            ("vgw_kube_undecodable_total", self.undecodable, "Objects that could not be decoded."),
        )
        for name, counts, help_text in counters:
            yield from family(name, "counter", help_text, _labelled(counts))
        yield from family("vgw_kube_objects", "gauge", "Objects that are watched.", _labelled(self.objects))


def _labelled(counts: Mapping[str, float]) -> Iterator[tuple[Mapping[str, str], float]]:
    return (({"kind": kind}, count) for kind, count in counts.items())
