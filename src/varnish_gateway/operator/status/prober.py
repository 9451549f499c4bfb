"""Asks the pods of Gateways what they serve.

In:   a Gateway's plan, its pods and its Service.
Out:  verdicts, and when to ask again: soon as long as something is missing, now and then afterwards.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from varnish_gateway.api import Key
from varnish_gateway.emit import names
from varnish_gateway.emit.routing import content_hash
from varnish_gateway.emit.tls import tls_hash
from varnish_gateway.operator.observe.pods import Chaperones, Report
from varnish_gateway.operator.observe.sources import Sources
from varnish_gateway.operator.plan.gateway import Plan
from varnish_gateway.operator.status.programmed import Verdict, Wanted, judge

SUSPICION_SECONDS = 0.5
FIRST_SECONDS, LAST_SECONDS, SETTLED_SECONDS = 0.1, 2.0, 30.0
SILENT_SECONDS = 10.0
"""In place of LAST_SECONDS where a pod does not answer at all: it takes up its place among those that are asked."""

Reports = Mapping[str, Report | str]


class Probe(NamedTuple):
    """What came of asking: whether the verdict is another one, and after how long to ask again, if at all."""

    is_news: bool
    again: float | None


class Prober:
    """``verdicts`` are the newest, by Gateway; they are kept here and forgotten by whoever finds them outdated."""

    def __init__(self, sources: Sources, chaperones: Chaperones, verdicts: dict[Key, Verdict]) -> None:
        self._sources = sources
        self._chaperones = chaperones
        self._verdicts = verdicts
        self._seconds: dict[Key, float] = {}
        self._suspected: set[Key] = set()

    async def ask(self, gateway: Key) -> Reports:
        """Return what each ready pod of a Gateway says."""
        pods = self._sources.pods.get(gateway, {}).values()
        return await self._chaperones.ask([pod for pod in pods if pod.is_ready and pod.address])

    def judge(self, gateway: Key, plan: Plan, reports: Reports, faults: Sequence[str]) -> Probe:
        """Take in what pods said; ``faults`` are what could not be brought about."""
        verdict = judge(_wanted(plan), reports, self._service(gateway), faults)
        known = self._verdicts.get(gateway)
        was_invalid = gateway in self._suspected or (known is not None and known.reason == "Invalid")
        self._suspected.discard(gateway)
        if verdict.reason == "Invalid" and not faults and not was_invalid:
            self._suspected.add(gateway)  # a pod may get over it by itself: it is said if it is still so
            return Probe(is_news=False, again=SUSPICION_SECONDS)
        self._verdicts[gateway] = verdict
        return Probe(verdict != known, self._next(gateway, verdict, reports) if reports else None)

    def hurry(self, gateway: Key) -> None:
        """Ask often again: something is different."""
        self._seconds.pop(gateway, None)

    def forget(self, gateway: Key) -> None:
        self._suspected.discard(gateway)
        for known in (self._seconds, self._verdicts):
            known.pop(gateway, None)

    def _next(self, gateway: Key, verdict: Verdict, reports: Reports) -> float:
        if verdict.served:
            self._seconds.pop(gateway, None)
            return SETTLED_SECONDS
        are_silent = any(isinstance(report, str) for report in reports.values())
        seconds = min(self._seconds.get(gateway, FIRST_SECONDS), SILENT_SECONDS if are_silent else LAST_SECONDS)
        self._seconds[gateway] = seconds * 2
        return seconds

    def _service(self, gateway: Key) -> Mapping[str, object] | None:
        live = self._sources.live.get(Key("Service", gateway.namespace, names.workload(gateway.name)))
        return live.document if live is not None else None


def _wanted(plan: Plan) -> Wanted:
    return Wanted(
        generation=str(plan.gateway.metadata.generation),
        sockets=plan.sockets,
        vcl=content_hash(plan.vcl.encode()) if plan.vcl is not None else None,
        tls=tls_hash(plan.tls),
        addresses=tuple(address.value for address in plan.gateway.spec.addresses if address.value),
    )
