"""Whether the pods of a Gateway serve it, for the condition Programmed.

In:   what its pods should serve, what their chaperones report, its Service as it is stored.
Out:  Readiness, with the reason and message of the condition.
Pure.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from varnish_gateway.emit.tls import NO_TLS
from varnish_gateway.ir import StatusAddress

TOLERATED = 10
"""One in so many ready pods may be behind or silent, whatever the reason: a reload, a lost node, a full disk."""


class PodReport(Struct, frozen=True, rename="camel"):
    """A chaperone's answer to /ready: the fields that the operator reads."""

    vcl: str | None = None
    tls: str | None = None
    generation: str | None = None
    sockets: tuple[str, ...] = ()
    up_to_date: bool = False
    problems: tuple[str, ...] = ()
    troubles: tuple[str, ...] = ()


Reports = Mapping[str, PodReport | str]
"""By name of the pod; a text says why there is no report."""


class Expected(Struct, frozen=True):
    """What every ready pod has to report before the Gateway counts as programmed."""

    generation: str
    sockets: frozenset[str]
    vcl: str | None = None  # hash of main.vcl, where that is known
    tls: str = NO_TLS
    addresses: tuple[str, ...] = ()  # of spec.addresses


class Issues(Struct, frozen=True):
    """Of a Gateway: ``faults`` are objects that could not be applied. ``remarks`` don't affect whether it serves."""

    faults: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


NO_ISSUES = Issues()


class Readiness(Struct, frozen=True):
    """``is_serving``: the ready pods serve what is expected, but for a tolerated few, at the expected addresses."""

    is_serving: bool
    reason: str
    message: str = ""
    addresses: tuple[StatusAddress, ...] = ()


def assess(
    expected: Expected,
    reports: Reports,
    service: Mapping[str, Any] | None,
    issues: Issues = NO_ISSUES,
) -> Readiness:
    """Return the readiness of a Gateway."""
    addresses = service_addresses(service)
    reason, message = (
        ("Invalid", "; ".join(issues.faults))
        if issues.faults
        else _addressing(expected, {address.value for address in addresses}) or _serving(expected, reports)
    )
    message = "; ".join(part for part in (message, *issues.remarks) if part)
    return Readiness(not reason, reason or "Programmed", message, addresses)


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


def _addressing(expected: Expected, given: set[str]) -> tuple[str, str] | None:
    """Return what is wrong with the addresses, as a reason and a message."""
    missing = [address for address in expected.addresses if address not in given]
    if missing:
        message = f"addresses: {', '.join(missing)} is not given by the load balancer; wait, or choose another one"
        return "AddressNotUsable", message
    return None if given else ("AddressNotAssigned", "the Service of the Gateway has no address yet")


def _serving(expected: Expected, reports: Reports) -> tuple[str, str]:
    """Return what the pods lack, as a reason and a message; no reason if enough of them serve what is expected."""
    if not expected.sockets:
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
    lacking = expected.sockets - {socket.partition("=")[0] for socket in report.sockets}
    if lacking:
        return f"{', '.join(sorted(lacking))} is not open there yet"
    lacks = {
        "the newest VCL": report.vcl != (expected.vcl or report.vcl),
        "the newest certificate": (report.tls or NO_TLS) != expected.tls,
        f"generation {expected.generation}": report.generation != expected.generation or not report.up_to_date,
    }
    return next((f"{what} is not served there yet" for what, is_missing in lacks.items() if is_missing), "")
