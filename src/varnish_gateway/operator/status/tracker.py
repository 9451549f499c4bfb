"""The readiness of every Gateway, and when to probe its pods again.

In:   what a Gateway's pods reported, what they should serve, and its Service.
Out:  the newest Readiness, whether it changed, and the delay before the next probe: short while
      pods are behind, long once they serve.
Pure.
"""

from collections.abc import Mapping
from typing import NamedTuple

from varnish_gateway.api import Key
from varnish_gateway.operator.observe.owned import OwnedObject
from varnish_gateway.operator.status.readiness import Expected, Issues, PodReport, Readiness, assess
from varnish_gateway.runtime.backoff import Backoff

CONFIRM_SECONDS = 0.5
"""A pod may recover from a problem by itself: it is published only if the next probe finds it too."""
FIRST_SECONDS, LAST_SECONDS, SERVING_SECONDS = 0.1, 2.0, 30.0
SILENT_SECONDS = 10.0
"""In place of LAST_SECONDS where a pod does not answer: each probe of it occupies a slot until its deadline."""

Reports = Mapping[str, PodReport | str]


class ProbeOutcome(NamedTuple):
    """``next_probe``: seconds until the next probe, None where there is no pod to ask."""

    has_changed: bool
    next_probe: float | None


class ReadinessTracker:
    """``readiness`` holds the newest assessment by Gateway; a Gateway without one was not probed yet."""

    def __init__(self) -> None:
        self.readiness: dict[Key, Readiness] = {}
        self._backoffs: dict[Key, Backoff] = {}
        self._unconfirmed: set[Key] = set()

    def on_reports(
        self, gateway: Key, expected: Expected, reports: Reports, service: OwnedObject | None, issues: Issues
    ) -> ProbeOutcome:
        """Assess what pods reported."""
        new = assess(expected, reports, service.document if service is not None else None, issues)
        known = self.readiness.get(gateway)
        was_invalid = gateway in self._unconfirmed or (known is not None and known.reason == "Invalid")
        self._unconfirmed.discard(gateway)
        if new.reason == "Invalid" and not issues.faults and not was_invalid:
            self._unconfirmed.add(gateway)
            return ProbeOutcome(has_changed=False, next_probe=CONFIRM_SECONDS)
        self.readiness[gateway] = new
        return ProbeOutcome(new != known, self._next_probe(gateway, new, reports) if reports else None)

    def hasten(self, gateway: Key) -> None:
        """Probe at short intervals again: something about the Gateway changed."""
        self._backoffs.pop(gateway, None)

    def invalidate(self, gateway: Key) -> None:
        """Drop an assessment that says nothing about the Gateway's newest state."""
        self.readiness.pop(gateway, None)

    def forget(self, gateway: Key) -> None:
        """Drop everything about a deleted Gateway."""
        self._unconfirmed.discard(gateway)
        self._backoffs.pop(gateway, None)
        self.readiness.pop(gateway, None)

    def _next_probe(self, gateway: Key, readiness: Readiness, reports: Reports) -> float:
        if readiness.is_serving:
            self._backoffs.pop(gateway, None)
            return SERVING_SECONDS
        are_silent = any(isinstance(report, str) for report in reports.values())
        backoff = self._backoffs.setdefault(gateway, Backoff(FIRST_SECONDS, SILENT_SECONDS))
        return backoff.next(most=SILENT_SECONDS if are_silent else LAST_SECONDS)
