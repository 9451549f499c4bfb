"""Which pods of a Gateway an invalidation is accounted for in.

In:   pods as they are observed, and what they answer.
Out:  a result for each pod, and the pods that are open yet.
Pure: the time is an argument.

A pod is accounted for once it has confirmed, or holds nothing that is older than the invalidation, or is gone.
"""

from collections.abc import Iterable
from typing import Literal

from varnish_gateway import ir
from varnish_gateway.api.meta import timestamp
from varnish_gateway.operator.observe.pods import GatewayPod
from varnish_gateway.operator.status.answers import InvalidationAnswer

SKEW_SECONDS = 60.0
"""So far may the clock of a node be from that of the API server: a pod counts as newer than the invalidation only
where it started so much later. To send it in vain is harmless."""


class PodAccounts:
    """``since`` is when the invalidation was created, None where that isn't known."""

    def __init__(self, since: float | None, results: Iterable[ir.PodResult] = ()) -> None:
        self._since = since
        self.results = {one.pod_name: one for one in results}

    # -- lookups -------------------------------------------------------------------------

    @property
    def objects(self) -> int:
        return sum(one.objects for one in self.results.values())

    @property
    def rejection(self) -> str | None:
        """Why a pod says that no pod will ever carry it out."""
        return next((one.message for one in self.results.values() if one.reason == "Rejected"), None)

    def open(self, pods: Iterable[GatewayPod]) -> list[GatewayPod]:
        """Return the pods that are not accounted for."""
        return [pod for pod in pods if not self.has(pod)]

    def has(self, pod: GatewayPod) -> bool:
        known = self.results.get(pod.name)
        return known is not None and known.success

    def why_empty(self, pod: GatewayPod) -> str | None:
        """Return why a pod holds nothing that is meant."""
        if not pod.is_running:
            return "its gateway does not run, and starts with an empty cache"
        if self._since is not None and pod.started is not None and pod.started > self._since + SKEW_SECONDS:
            return "it started later, with an empty cache"
        return None

    def __str__(self) -> str:
        """Say what happened in how many pods."""
        if not self.results:
            return "the Gateway has no pod, so nothing is stored"
        by_reason = {"Confirmed": "confirmed by", "Empty": "empty:", "Gone": "gone:"}
        counts = {why: sum(one.reason == why for one in self.results.values()) for why in by_reason}
        parts = [f"{by_reason[why]} {number} pods" for why, number in counts.items() if number]
        return f"{self.objects} objects; {', '.join(parts or ['confirmed by no pod'])}"

    # -- updates -------------------------------------------------------------------------

    def update(
        self, pod: GatewayPod, targets: int, answer: InvalidationAnswer | None, at: float
    ) -> ir.PodResult | None:
        """Account for a pod by its answer, or without one; return its result if it is another one than before."""
        result = self._result(pod, targets, answer, at)
        if result is not None:
            self.results[pod.name] = result
        return result

    def _result(
        self, pod: GatewayPod, targets: int, answer: InvalidationAnswer | None, at: float
    ) -> ir.PodResult | None:
        why = self.why_empty(pod)
        if answer is not None and answer.objects is not None and len(answer.objects) == targets:
            number = sum(answer.objects)
            return ir.PodResult(pod.name, True, "Confirmed", f"{number} objects", number, timestamp(at))
        if why is not None:
            return ir.PodResult(pod.name, True, "Empty", why, completed_at=timestamp(at))
        if answer is None:
            return None
        reason: Literal["Rejected", "Unanswered"] = "Rejected" if answer.is_rejection else "Unanswered"
        message = answer.message or f"it counted {len(answer.objects or ())} targets of {targets}"
        return ir.PodResult(pod.name, False, reason, message)

    def on_pods(self, present: Iterable[str], at: float) -> None:
        """Account for pods that are gone, by the names of those that are present."""
        names = set(present)
        for name, known in self.results.items():
            if name not in names and known.reason == "Unanswered":
                message = "it went before it confirmed, and its cache with it"
                self.results[name] = ir.PodResult(name, True, "Gone", message, completed_at=timestamp(at))
