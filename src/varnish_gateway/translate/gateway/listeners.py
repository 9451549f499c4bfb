"""Validate the listeners of one Gateway, or of one ListenerSet.

In:   the listeners of its spec, and ports that are not for listeners.
Out:  ValidatedListener: what routes need of it, and the problems that become its conditions.
Nothing here looks at other Gateways or ListenerSets: see listener_conflicts.py.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import structs

from varnish_gateway.api.gateway_networking import RouteGroupKind
from varnish_gateway.ir import ListenerStatus, RouteKind, wire
from varnish_gateway.ir.reserved import socket_name
from varnish_gateway.translate import hostnames
from varnish_gateway.translate.conditions import Problem, conflicted, overlapping, positive, unprogrammed
from varnish_gateway.translate.listener import FAMILIES, ValidatedListener

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from varnish_gateway.api.gateway_networking import ListenerSpec, ListenerTls
    from varnish_gateway.ir import Condition

HTTP_ROUTE = RouteGroupKind(kind="HTTPRoute")
SERVED = ("HTTP", "HTTPS")
OPTIONS = "gateway.varnish-software.com"
"""The domain of TLS options of our own; there are none."""


def validate(
    specs: Sequence[ListenerSpec], *, reserved_ports: Collection[int], prefix: str = ""
) -> tuple[ValidatedListener, ...]:
    """Return the listeners of a Gateway or ListenerSet, each with its problems."""
    families = {port: _families(specs, port) for port in {spec.port for spec in specs}}
    twins = Counter(_identity(spec) for spec in specs)
    return tuple(
        _validated(
            spec,
            prefix + spec.name,
            _conflict(spec, families[spec.port], twins),
            _rejection(spec, reserved_ports),
        )
        for spec in specs
    )


def reject(listener: ValidatedListener, problem: Problem) -> ValidatedListener:
    """Return the listener, not accepted."""
    return structs.replace(listener, rejected=problem)


def conflict_with_others(listener: ValidatedListener, problem: Problem) -> ValidatedListener:
    """Return the listener in conflict with one of another owner."""
    return structs.replace(listener, rejected=problem, conflict=problem)


def to_wire(listener: ValidatedListener) -> wire.Listener:
    """Return a served listener as ghost knows it. Listeners on one port share its socket."""
    return wire.Listener(
        name=listener.id,
        socket=socket_name(listener.scheme, listener.port),
        port=listener.port,
        scheme=listener.scheme,
        hostname=listener.hostname,
    )


def status_of(
    listener: ValidatedListener,
    attached_routes: int,
    generation: int,
    *,
    overlaps: bool = False,
    notices: Sequence[Condition] = (),
) -> ListenerStatus:
    """Return the status of a listener, with Programmed left open where it is served, and with further conditions."""
    invalid = listener.conflict or (
        Problem("Invalid", listener.rejected.message) if listener.rejected else listener.unserved
    )
    return ListenerStatus(
        listener.name,
        tuple(RouteKind(kind.group, kind.kind) for kind in listener.kinds),
        attached_routes,
        (
            positive("Accepted", listener.rejected, generation),
            unprogrammed(invalid, generation),
            positive("ResolvedRefs", listener.unresolved, generation),
            conflicted(listener.conflict, generation),
            *((overlapping(listener.port, listener.hostname, generation),) if overlaps else ()),
            *notices,
        ),
    )


def _validated(
    spec: ListenerSpec, listener_id: str, conflict: Problem | None, rejected: Problem | None
) -> ValidatedListener:
    kinds, unresolved = _kinds(spec)
    return ValidatedListener(
        id=listener_id,
        name=spec.name,
        protocol=spec.protocol,
        port=spec.port,
        hostname=hostnames.normal(spec.hostname),
        kinds=kinds,
        namespaces=spec.allowed_routes.namespaces,
        rejected=conflict or rejected,
        conflict=conflict,
        unresolved=unresolved,
        scheme="https" if spec.protocol == "HTTPS" else "http",
    )


def _kinds(spec: ListenerSpec) -> tuple[tuple[RouteGroupKind, ...], Problem | None]:
    supported = (HTTP_ROUTE,) if spec.protocol in SERVED else ()
    asked = spec.allowed_routes.kinds
    if not asked:
        return supported, None
    unsupported = [f"{kind.group}/{kind.kind}" for kind in asked if kind not in supported]
    kinds = tuple(kind for kind in dict.fromkeys(asked) if kind in supported)
    if not unsupported:
        return kinds, None
    message = f"allowedRoutes.kinds: {', '.join(unsupported)} is not supported on this listener; remove it"
    return kinds, Problem("InvalidRouteKinds", message)


def _rejection(spec: ListenerSpec, reserved_ports: Collection[int]) -> Problem | None:
    if spec.protocol not in SERVED:
        return Problem("UnsupportedProtocol", f"the protocol {spec.protocol} is not supported; use HTTP or HTTPS")
    if spec.protocol == "HTTPS" and spec.tls is not None and (unsupported := _unsupported(spec.tls)) is not None:
        return unsupported
    if spec.port in reserved_ports:
        return Problem("PortUnavailable", f"port {spec.port} is used by the gateway itself; choose another one")
    return None


def _unsupported(tls: ListenerTls) -> Problem | None:
    if tls.mode != "Terminate":
        return Problem("UnsupportedValue", f"tls.mode: {tls.mode} is not supported with HTTPS; use Terminate")
    for option in tls.options:
        # Options with another domain are for other implementations.
        if option.partition("/")[0] in (option, OPTIONS):
            return Problem("UnsupportedValue", f"tls.options: {option} is not known; remove it")
    return None


def _identity(spec: ListenerSpec) -> tuple[int, str, str]:
    return spec.port, spec.protocol, hostnames.normal(spec.hostname)


def _families(specs: Sequence[ListenerSpec], port: int) -> frozenset[str]:
    return frozenset(FAMILIES[spec.protocol] for spec in specs if spec.port == port and spec.protocol in FAMILIES)


def _conflict(spec: ListenerSpec, families: frozenset[str], twins: Counter[tuple[int, str, str]]) -> Problem | None:
    if spec.protocol in FAMILIES and len(families) > 1:
        return Problem(
            "ProtocolConflict",
            f"other listeners on port {spec.port} use a protocol that can't share it; choose another port",
        )
    if twins[_identity(spec)] > 1:
        return Problem(
            "HostnameConflict",
            f"another listener on port {spec.port} has the same hostname ({hostnames.normal(spec.hostname)}); "
            "choose another one",
        )
    return None
