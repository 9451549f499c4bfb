"""What executors report about a job they ran: values that go back into the Reconciler.

A result counts whether or not the job succeeded: an executor fills it in as it goes.
"""

from msgspec import Struct, field

from varnish_gateway.api import Key
from varnish_gateway.operator.plan.gateway import DesiredGateway
from varnish_gateway.operator.status.readiness import Reports


class ProbeReports(Struct, frozen=True):
    """``gateway`` is the desired state that the probe started from, ``at`` the time when it ended."""

    gateway: DesiredGateway
    reports: Reports
    at: float


class JobResult(Struct):
    """``touched`` are generated objects that the job may have written or found surplus.

    ``withdrawn`` are objects from which our status is removed, or that are gone. ``retry_after``: the
    job was too early and has to run again after so many seconds. ``is_postponed``: a Deployment waits until
    the rollouts of other Gateways have ended.
    """

    touched: set[Key] = field(default_factory=set)
    withdrawn: set[Key] = field(default_factory=set)
    probe: ProbeReports | None = None
    retry_after: float = 0.0
    is_postponed: bool = False
