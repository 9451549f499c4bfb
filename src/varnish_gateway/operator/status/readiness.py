"""Whether the pods of a Gateway serve it, for the condition Programmed.

In:   what its pods should serve, what their chaperones report, its Service as it is stored.
Out:  Readiness, with the reason and message of the condition.
Pure.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from varnish_gateway.emit.tls import NO_TLS
from varnish_gateway.ir import StatusAddress
from varnish_gateway.translate.conditions import listed

TOLERATED = 10
"""One in so many ready pods may be behind or silent, whatever the reason: a reload, a lost node, a full disk."""


class UnservedReport(Struct, frozen=True):
    """Backends that can't have endpoints, in a chaperone's answer: their number, and the first of them."""

    count: int = 0
    first: tuple[str, ...] = ()


class PodReport(Struct, frozen=True, rename="camel"):
    """A chaperone's answer to /ready: the fields that the operator reads."""

    vcl: str | None = None
    tls: str | None = None
    generation: str | None = None
    sockets: tuple[str, ...] = ()
    up_to_date: bool = False
    problems: tuple[str, ...] = ()
    troubles: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    version: str = ""
    unserved: UnservedReport = UnservedReport()
    closed: dict[str, str] = {}
    deferred: dict[str, str] = {}


Reports = Mapping[str, PodReport | str]
"""By name of the pod; a text says why there is no report."""


class Expected(Struct, frozen=True):
    """What every ready pod has to report before the Gateway counts as programmed.

    ``sockets`` are those of its own listeners. ``has_listeners``: it has some, perhaps of ListenerSets alone.
    ``set_sockets`` are those of ListenerSets alone: no Gateway waits for them.
    """

    generation: str
    sockets: frozenset[str]
    has_listeners: bool = True
    vcl: str | None = None  # hash of main.vcl, where that is known
    tls: str = NO_TLS
    addresses: tuple[str, ...] = ()  # of spec.addresses
    set_sockets: frozenset[str] = frozenset()


class Issues(Struct, frozen=True):
    """Of a Gateway: ``faults`` are objects that could not be applied. ``remarks`` don't affect whether it serves.

    ``withheld`` says what pods don't understand, and so don't get.
    """

    faults: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    withheld: str = ""


NO_ISSUES = Issues()


class Readiness(Struct, frozen=True):
    """``is_serving``: the ready pods serve what is expected, but for a tolerated few, at the expected addresses.

    ``open_sockets`` are those that the ready pods have open, but for a tolerated few. ``cause`` is the message
    without remarks. ``unserved`` names backends that can't have endpoints. ``closed_sockets`` are those that a pod
    can't open now, with the reason; on ``deferred_sockets`` it still serves former certificates or authorities.
    """

    is_serving: bool
    reason: str
    message: str = ""
    addresses: tuple[StatusAddress, ...] = ()
    withheld: str = ""
    open_sockets: frozenset[str] = frozenset()
    cause: str = ""
    unserved: str = ""
    closed_sockets: Mapping[str, str] = {}
    deferred_sockets: Mapping[str, str] = {}


def assess(
    expected: Expected,
    reports: Reports,
    service: Mapping[str, Any] | None,
    issues: Issues = NO_ISSUES,
) -> Readiness:
    """Return the readiness of a Gateway."""
    addresses = service_addresses(service)
    reason, cause = (
        ("Invalid", "; ".join(issues.faults))
        if issues.faults
        else _addressing(expected, {address.value for address in addresses}) or _serving(expected, reports)
    )
    deferred = first_reasons(reports, "deferred")
    waiting = [f"{socket}: {why}" for socket, why in deferred.items() if socket in expected.sockets]
    message = "; ".join(part for part in (cause, *issues.remarks, *waiting) if part)
    return Readiness(
        not reason,
        reason or "Programmed",
        message,
        addresses,
        issues.withheld,
        open_sockets(reports),
        cause,
        closed_sockets=first_reasons(reports, "closed"),
        deferred_sockets=deferred,
    )


def open_sockets(reports: Reports) -> frozenset[str]:
    """Return the sockets that enough of the ready pods have open."""
    enough = len(reports) - len(reports) // TOLERATED
    pods = Counter(
        socket for report in reports.values() if isinstance(report, PodReport) for socket in _open_in(report)
    )
    return frozenset(socket for socket, count in pods.items() if count >= enough)


def first_reasons(reports: Reports, field: Literal["closed", "deferred"]) -> dict[str, str]:
    """Return the sockets that pods name in a field, with the first pod by name and its reason."""
    found: dict[str, str] = {}
    for pod, report in sorted(reports.items()):
        if isinstance(report, PodReport):
            reasons: dict[str, str] = getattr(report, field)
            found = {socket: f"{pod}: {reason}" for socket, reason in reasons.items()} | found
    return dict(sorted(found.items()))


def _open_in(report: PodReport) -> set[str]:
    return {socket.partition("=")[0] for socket in report.sockets}


def troubles_of(reports: Reports) -> tuple[str, ...]:
    """Return what keeps pods from following the cluster, as a remark with their number and the first of them."""
    troubled = {
        pod: report.troubles[0]
        for pod, report in sorted(reports.items())
        if isinstance(report, PodReport) and report.troubles
    }
    return tuple(
        f"{len(troubled)} of {len(reports)} ready pods can't follow the cluster: {pod}: {trouble}"
        for pod, trouble in list(troubled.items())[:1]
    )


def unserved_of(reports: Reports) -> str:
    """Return the backends that can't have endpoints, as the first pod by name reports them; "" without any."""
    found = (report.unserved for _, report in sorted(reports.items()) if isinstance(report, PodReport))
    unserved = next((one for one in found if one.count), None)
    if unserved is None:
        return ""
    return listed(unserved.first, more=unserved.count - len(unserved.first))


def _addressing(expected: Expected, given: set[str]) -> tuple[str, str] | None:
    """Return what is wrong with the addresses, as a reason and a message."""
    missing = [address for address in expected.addresses if address not in given]
    if missing:
        message = f"addresses: {', '.join(missing)} is not given by the load balancer; wait, or choose another one"
        return "AddressNotUsable", message
    return None if given else ("AddressNotAssigned", "the Service of the Gateway has no address yet")


def _serving(expected: Expected, reports: Reports) -> tuple[str, str]:
    """Return what the pods lack, as a reason and a message; no reason if enough of them serve what is expected."""
    if not expected.has_listeners:
        return "Pending", "there is no listener to serve"
    if not reports:
        return "Pending", "no pod is ready yet"
    behind = {pod: why for pod, report in sorted(reports.items()) if (why := _behind(expected, report))}
    if not behind:
        return "", ""
    pod, why = next(iter(behind.items()))
    first = f"{len(behind)} of {len(reports)} ready pods do not serve this yet; the first is {pod}: {why}"
    if len(behind) <= len(reports) // TOLERATED:
        return "", first
    has_problems = any(isinstance(report, PodReport) and report.problems for report in reports.values())
    return "Invalid" if has_problems else "Pending", first


def service_addresses(service: Mapping[str, Any] | None) -> tuple[StatusAddress, ...]:
    """Return where the Service can be reached: the load balancer's addresses, or the cluster's own."""
    if service is None:
        return ()
    if service.get("spec", {}).get("type") == "LoadBalancer":
        ingress = service.get("status", {}).get("loadBalancer", {}).get("ingress") or ()
        found = [
            ("IPAddress", one["ip"]) if one.get("ip") else ("Hostname", one.get("hostname", "")) for one in ingress
        ]
    else:
        found = [("IPAddress", ip) for ip in service.get("spec", {}).get("clusterIPs") or () if ip != "None"]
    return tuple(StatusAddress(kind, value) for kind, value in found if value)  # type: ignore[arg-type]


def _behind(expected: Expected, report: PodReport | str) -> str:
    """Return what a pod lacks; "" if it serves what is expected."""
    if isinstance(report, str):
        return report
    if report.problems:
        return "; ".join(report.problems)
    lacking = expected.sockets - _open_in(report)
    if lacking:
        return f"{', '.join(sorted(lacking))} is not open there yet"
    lacks = {
        "the newest VCL": report.vcl != (expected.vcl or report.vcl),
        "the newest certificate": (report.tls or NO_TLS) != expected.tls,
        f"generation {expected.generation}": report.generation != expected.generation or not report.up_to_date,
    }
    return next((f"{what} is not served there yet" for what, is_missing in lacks.items() if is_missing), "")
