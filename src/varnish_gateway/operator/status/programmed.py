"""Whether a Gateway is programmed.

In:   what is wanted of its pods, what their chaperones report, its Service as it is stored.
Out:  a Verdict for with_programmed.
Pure.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from varnish_gateway.emit.tls import NO_TLS
from varnish_gateway.ir import Address
from varnish_gateway.operator.observe.pods import Report

SHOWN = 3
"""This many pods are named in a message; the others are counted."""


class Wanted(Struct, frozen=True):
    """What a pod has to report before it counts."""

    generation: str
    sockets: frozenset[str]
    vcl: str | None = None  # hash of main.vcl, where that is known
    tls: str = NO_TLS
    addresses: tuple[str, ...] = ()  # of spec.addresses


class Verdict(Struct, frozen=True):
    served: bool
    reason: str
    message: str = ""
    addresses: tuple[Address, ...] = ()


def judge(
    wanted: Wanted,
    reports: Mapping[str, Report | str],
    service: Mapping[str, Any] | None,
    faults: Sequence[str],
) -> Verdict:
    """Return the verdict. ``faults`` are objects that could not be brought about."""
    addresses = service_addresses(service)
    reason, message = (
        ("Invalid", "; ".join(faults))
        if faults
        else _addressing(wanted, {address.value for address in addresses}) or _serving(wanted, reports)
    )
    return Verdict(not reason, reason or "Programmed", message, addresses)


def _addressing(wanted: Wanted, given: set[str]) -> tuple[str, str] | None:
    """Return what is wrong with the addresses, as a reason and a message."""
    missing = [address for address in wanted.addresses if address not in given]
    if missing:
        message = f"addresses: {', '.join(missing)} is not given by the load balancer; wait, or choose another one"
        return "AddressNotUsable", message
    return None if given else ("AddressNotAssigned", "the Service of the Gateway has no address yet")


def _serving(wanted: Wanted, reports: Mapping[str, Report | str]) -> tuple[str, str]:
    """Return what the pods lack, as a reason and a message; empty if they serve what is wanted."""
    if not wanted.sockets:
        return "Pending", "there is no listener to serve"
    if not reports:
        return "Pending", "no pod is ready yet"
    behind = {pod: why for pod, report in sorted(reports.items()) if (why := _behind(wanted, report))}
    if not behind:
        return "", ""
    refused = any(isinstance(report, Report) and report.problems for report in reports.values())
    return "Invalid" if refused else "Pending", _describe(behind, len(reports))


def service_addresses(service: Mapping[str, Any] | None) -> tuple[Address, ...]:
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
    return tuple(Address(kind, value) for kind, value in found if value)  # type: ignore[arg-type]


def _behind(wanted: Wanted, report: Report | str) -> str:
    """Return what a pod lacks; "" if it serves what is wanted."""
    if isinstance(report, str):
        return report
    if report.problems:
        return "; ".join(report.problems)
    lacking = wanted.sockets - {socket.partition("=")[0] for socket in report.sockets}
    if lacking:
        return f"{', '.join(sorted(lacking))} is not open there yet"
    lacks = {
        "the newest VCL": report.vcl != (wanted.vcl or report.vcl),
        "the newest certificate": (report.tls or NO_TLS) != wanted.tls,
        f"generation {wanted.generation}": report.generation != wanted.generation or not report.up_to_date,
    }
    return next((f"{what} is not served there yet" for what, is_missing in lacks.items() if is_missing), "")


def _describe(behind: Mapping[str, str], pods: int) -> str:
    told = [f"{pod}: {why}" for pod, why in list(behind.items())[:SHOWN]]
    more = f"; and {len(behind) - SHOWN} more" if len(behind) > SHOWN else ""
    return f"{len(behind)} of {pods} ready pods do not serve this yet: {'; '.join(told)}{more}"
