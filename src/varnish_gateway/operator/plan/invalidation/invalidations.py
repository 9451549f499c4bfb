"""All VarnishCacheInvalidations: which of them are sent now, and to whom.

In:   the objects with their stored statuses, the Gateways of our class, their pods, and answers of pods.
Out:  rounds to send, statuses, and when to look again.
Pure. Only a few of one namespace are under way at once, so that many of one tenant don't delay those of others.
"""

from collections.abc import Iterable, Mapping
from itertools import islice

from varnish_gateway import api
from varnish_gateway.api import Key, VarnishCacheInvalidation
from varnish_gateway.operator.observe.pods import GatewayPod
from varnish_gateway.operator.observe.state import ObservedState
from varnish_gateway.operator.plan.gateway import DesiredGateway
from varnish_gateway.operator.plan.invalidation.progress import Progress, Round, RoundReport, is_begun
from varnish_gateway.operator.plan.jobs import Jobs
from varnish_gateway.operator.plan.statuses import DesiredStatuses
from varnish_gateway.translate.invalidation.request import request_of

AT_ONCE = 4
"""Of one namespace; the others wait in their order."""


class Invalidations:
    """``statuses`` get the status of each."""

    def __init__(
        self, observed: ObservedState, gateways: Mapping[Key, DesiredGateway], statuses: DesiredStatuses
    ) -> None:
        self._observed = observed
        self._gateways = gateways
        self._statuses = statuses
        self._all: dict[Key, Progress] = {}
        self._unfinished: dict[str, dict[Key, None]] = {}  # by namespace, in their order
        self._by_gateway: dict[Key, set[Key]] = {}

    # -- changes -------------------------------------------------------------------------

    def update(self, jobs: Jobs, key: Key, obj: api.Object | None) -> None:
        """Apply the newest version of an object, None for a deleted one. An edited spec is carried out again."""
        if not isinstance(obj, VarnishCacheInvalidation):
            self._remove(key)
            self._statuses.update(key, None)
            jobs.add_all("invalidate", self._under_way(key.namespace))
            return
        known = self._all.get(key)
        if known is not None and _generation(known.obj) == _generation(obj):
            known.obj = obj
            return
        self._remove(key)
        progress = self._all[key] = Progress(obj, self._stored(key))
        self._by_gateway.setdefault(obj.gateway, set()).add(key)
        if not progress.is_finished:
            self._unfinished.setdefault(key.namespace, {})[key] = None
        self._publish(jobs, key)
        jobs.add("invalidate", key)

    def wake(self, jobs: Jobs, gateways: Iterable[Key]) -> None:
        """Look again at what pods have not confirmed: these Gateways, or their pods, have changed."""
        for gateway in gateways:
            for key in self._by_gateway.get(gateway, ()):
                if self._is_of_another(key):
                    self._statuses.forget(key)
                    continue
                self._adopt(key)
                progress = self._all[key]
                if not progress.is_settled or progress.to_send(self._pods(gateway)):
                    self._publish(jobs, key)
                    jobs.add("invalidate", key)

    def resync(self, jobs: Jobs) -> None:
        """Go on from what is stored: this operator starts to lead, and another one led until now."""
        for key, progress in self._all.items():
            if not self._is_of_another(key):
                self._restore(key, progress.obj)
                self._publish(jobs, key)
            jobs.add("invalidate", key)

    def _adopt(self, key: Key) -> None:
        """Go on from what the operator of another class has stored, where its Gateway has our class now."""
        obj = self._all[key].obj
        if not self._all[key].has_begun and is_begun(self._stored(key), obj.metadata.generation):
            self._restore(key, obj)

    def _restore(self, key: Key, obj: VarnishCacheInvalidation) -> None:
        self._all[key] = Progress(obj, self._stored(key))
        if self._all[key].is_finished:
            self._finish(key)

    def _stored(self, key: Key) -> bytes:
        observed = self._observed.inputs.get(key)
        return b"" if observed is None else observed.status

    def _publish(self, jobs: Jobs, key: Key) -> None:
        """Have the status written where it is another one than before."""
        status = None if self._is_of_another(key) else self._all[key].status
        if status is not None and status != self._statuses.get(key):
            self._statuses.update(key, status)
            jobs.add("status", key)

    def _remove(self, key: Key) -> None:
        known = self._all.pop(key, None)
        if known is None:
            return
        keys = self._by_gateway[known.obj.gateway]
        keys.discard(key)
        if not keys:
            del self._by_gateway[known.obj.gateway]
        self._finish(key)

    def _finish(self, key: Key) -> None:
        unfinished = self._unfinished.get(key.namespace, {})
        unfinished.pop(key, None)
        if not unfinished:
            self._unfinished.pop(key.namespace, None)

    # -- lookups -------------------------------------------------------------------------

    @property
    def unfinished(self) -> int:
        """How many have not ended yet."""
        return sum(map(len, self._unfinished.values()))

    def expiry(self, key: Key) -> float | None:
        """When to delete an object, in seconds since 1970; None where that isn't known, or not for us to do."""
        progress = self._all.get(key)
        return None if progress is None or self._is_of_another(key) else progress.expiry

    def round(self, key: Key) -> Round | None:
        """Return what to send now; None where it is not our turn."""
        progress = self._all.get(key)
        if progress is None or self._is_of_another(key):
            return None
        if not progress.is_finished and key not in self._under_way(key.namespace):
            return None
        gateway = self._gateways.get(progress.obj.gateway)
        pods = progress.to_send(self._pods(progress.obj.gateway))
        if gateway is None or (progress.is_settled and not pods):
            return Round(progress.obj, None)
        return Round(progress.obj, request_of(progress.obj, gateway.state.routes), pods, gateway.token)

    def _under_way(self, namespace: str) -> tuple[Key, ...]:
        return tuple(islice(self._unfinished.get(namespace, ()), AT_ONCE))

    def _is_of_another(self, key: Key) -> bool:
        """Whether an operator of another class carries it out: its Gateway has that class, or had it until now."""
        progress = self._all[key]
        gateway = self._observed.inputs.get(progress.obj.gateway)
        if gateway is not None and isinstance(gateway.obj, api.Gateway):
            return gateway.obj.spec.gateway_class_name != self._observed.class_key.name
        return not progress.has_begun and is_begun(self._stored(key), progress.obj.metadata.generation)

    def _pods(self, gateway: Key) -> Iterable[GatewayPod]:
        return self._observed.pods.get(gateway, {}).values()

    # -- results -------------------------------------------------------------------------

    def on_report(self, jobs: Jobs, key: Key, report: RoundReport) -> None:
        """Apply a round that was sent. Where the object is another one by now, its own round follows."""
        progress = self._all.get(key)
        if progress is None or _generation(progress.obj) != _generation(report.sent.obj):
            return
        next_round = progress.update(report.sent, report.answers, self._pods(progress.obj.gateway), report.at)
        self._publish(jobs, key)
        if next_round is not None:
            jobs.add("invalidate", key, delay=next_round)
        if progress.is_finished and key in self._unfinished.get(key.namespace, ()):
            self._finish(key)
            jobs.add_all("invalidate", self._under_way(key.namespace))


def _generation(obj: VarnishCacheInvalidation) -> tuple[str, int]:
    return obj.metadata.uid, obj.metadata.generation
