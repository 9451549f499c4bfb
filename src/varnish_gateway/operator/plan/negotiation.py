"""What the pods of each Gateway understand, and what the operator withholds for that.

In:   the pods of a Gateway as observed, and what their chaperones report.
Out:  the capabilities that its routing is expressed with; pods to ask; the message of the condition Withheld.
Pure.

One pod without a capability removes it for all, because all pods of a Gateway read the same ConfigMaps. The
operator uses it again once every pod reports it. A silent pod changes nothing. It counts with what pods of the same
template report, so that a pod that crashes again and again withholds nothing from them. If its image differs after
all, its first report removes the capability. A pod without an address does not count yet.
"""

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

from varnish_gateway.api import Key
from varnish_gateway.ir.capabilities import ALL, CAPABILITIES
from varnish_gateway.operator.observe.pods import GatewayPod
from varnish_gateway.operator.observe.state import ObservedState
from varnish_gateway.operator.status.readiness import PodReport, Reports
from varnish_gateway.translate.conditions import listed

MOST_STARTING = 8
"""So many pods that aren't ready are asked at once: one that can't read its routing never becomes ready."""
LONGEST_VERSION = 64


class Reported(Struct, frozen=True):
    """What a pod reported last. It stays true while the pod exists."""

    capabilities: frozenset[str]
    version: str


UNREPORTED = Reported(frozenset(), "")


class Negotiation:
    def __init__(self, observed: ObservedState) -> None:
        self._observed = observed
        self._reported: dict[Key, dict[str, Reported]] = {}  # by Gateway and name of the pod
        self._silent: dict[Key, Counter[str]] = {}  # how often a pod didn't answer, likewise

    def starting_pods(self, gateway: Key) -> list[GatewayPod]:
        """Return pods to ask although they aren't ready: they have reported nothing yet.

        Those that were asked the least come first, so that a few silent pods hide no other one.
        """
        reported, silent = self._reported.get(gateway, {}), self._silent.get(gateway, Counter())
        pods = self._observed.remaining_pods(gateway)
        unreported = [pod for pod in pods if not pod.is_ready and pod.name not in reported]
        return sorted(unreported, key=lambda pod: silent[pod.name])[:MOST_STARTING]

    def on_reports(self, gateway: Key, reports: Reports, current: frozenset[str]) -> frozenset[str]:
        """Record what pods report; return the capabilities to express routing with from now on."""
        pods = self._observed.remaining_pods(gateway)
        known = self._reported.get(gateway, {})
        reported = {pod.name: known[pod.name] for pod in pods if pod.name in known}
        names = {pod.name for pod in pods}
        reported |= {
            name: Reported(ALL.intersection(report.capabilities), report.version[:LONGEST_VERSION])
            for name, report in reports.items()
            if isinstance(report, PodReport) and name in names
        }
        self._reported[gateway] = reported
        asked = self._silent.get(gateway, Counter()) + Counter(reports.keys())
        self._silent[gateway] = Counter({name: asked[name] for name in names & asked.keys() if name not in reported})
        common = ALL.intersection(*(one.capabilities for one in reported.values()))
        is_complete = bool(pods) and len(self._known(gateway)) == len(pods)
        return common if is_complete else current & common

    def _known(self, gateway: Key) -> dict[str, Reported]:
        """Return what is known of pods, by name: what they reported, or else what others of their template did."""
        pods, reported = self._observed.remaining_pods(gateway), self._reported.get(gateway, {})
        of_template = {pod.template: reported[pod.name] for pod in pods if pod.template and pod.name in reported}
        known = {pod.name: reported.get(pod.name, of_template.get(pod.template)) for pod in pods}
        return {name: one for name, one in known.items() if one is not None}

    def forget(self, gateway: Key) -> None:
        """Drop everything about a deleted Gateway."""
        self._reported.pop(gateway, None)
        self._silent.pop(gateway, None)

    def message(self, gateway: Key, withheld: Mapping[str, list[Key]]) -> str:
        """Return what a Gateway's pods miss and why; "" if that is nothing."""
        if not withheld:
            return ""
        parts = [self._part(gateway, name, routes) for name, routes in sorted(withheld.items())]
        return f"{'; '.join(parts)}. The operator sends this once every pod understands it"

    def _part(self, gateway: Key, capability: str, routes: list[Key]) -> str:
        users = f"{listed([str(route) for route in routes], ', ')}: " if routes else ""
        return f"{users}{CAPABILITIES[capability].loss}, because {self._why(gateway, capability)}"

    def _why(self, gateway: Key, capability: str) -> str:
        """Name the first pod that hasn't reported it.

        Whether the pod has reported anything makes no difference to the text: an operator that has just started,
        and can't reach a pod, states the same as the one before it.
        """
        known = self._known(gateway)
        for name in sorted(pod.name for pod in self._observed.remaining_pods(gateway)):
            reported = known.get(name, UNREPORTED)
            if capability not in reported.capabilities:
                version = f" of version {reported.version}" if reported.version else ""
                return f"pod {name}{version} doesn't report {capability}"
        return f"no pod has reported {capability} yet"
