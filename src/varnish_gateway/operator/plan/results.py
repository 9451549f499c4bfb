"""What executors report about a job they ran: values that go back into the Reconciler.

A result counts whether or not the job succeeded: an executor fills it in as it goes.
"""

from msgspec import Struct, field

from varnish_gateway.api import Key
from varnish_gateway.operator.plan.gateway import DesiredGateway
from varnish_gateway.operator.plan.invalidation.progress import RoundReport
from varnish_gateway.operator.status.readiness import Reports


class ProbeReports(Struct, frozen=True):
    """``gateway`` is the desired state that the probe started from, ``at`` the time when it ended.

    ``reports`` are of ready pods, ``starting`` of others.
    """

    gateway: DesiredGateway
    reports: Reports
    at: float
    starting: Reports = {}


class Postponed(Struct, frozen=True):
    """Why the pods of a Gateway are not replaced yet, for people. ``has_ports``: ports of ListenerSets wait."""

    message: str
    has_ports: bool = False


UPGRADE_PENDING = Postponed(
    "an upgrade is pending: pods of the previous version serve until those of other Gateways are replaced"
)


class JobResult(Struct):
    """``touched`` are generated objects that the job may have written or found surplus.

    ``withdrawn`` are objects from which our status is removed, or that are gone. ``retry_after``: the
    job was too early and has to run again after so many seconds. ``postponed``: a Deployment waits, for the
    rollouts of other Gateways or because ports changed too often. ``round``: what pods answered to an invalidation.
    """

    touched: set[Key] = field(default_factory=set)
    withdrawn: set[Key] = field(default_factory=set)
    probe: ProbeReports | None = None
    retry_after: float = 0.0
    postponed: Postponed | None = None
    round: RoundReport | None = None
