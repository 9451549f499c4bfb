"""Judge the listeners of one Gateway, or of one ListenerSet.

In:   the listeners of its spec, and ports that are not for listeners.
Out:  Listener: what routes have to know, and the problems that become its conditions.
Nothing here looks at other Gateways or ListenerSets: see claims.py.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, structs

from varnish_gateway.api.gateway_networking import RouteGroupKind, RouteNamespaces
from varnish_gateway.ir import ListenerStatus, RouteKind, wire
from varnish_gateway.ir.reserved import socket_name
from varnish_gateway.translate import hostnames
from varnish_gateway.translate.conditions import Problem, conflicted, overlapping, positive, unprogrammed

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from varnish_gateway.api.gateway_networking import Listener as ListenerSpec
    from varnish_gateway.api.gateway_networking import ListenerTls

HTTP_ROUTE = RouteGroupKind(kind="HTTPRoute")
SERVED = ("HTTP", "HTTPS")
NO_AUTHORITY = "NoValidCACertificate"
OPTIONS = "gateway.varnish-software.com"
"""TLS options of ours would begin with it; there are none."""
_FAMILIES = {"HTTP": "cleartext", "HTTPS": "TLS"}
"""Protocols that can share a port with others of their family only."""
_UNSERVED = {"TLS": "TLS", "TCP": "TCP"}
"""Protocols that we don't serve: they take nothing from those above, but could not be where another family is."""


class Listener(Struct, frozen=True):
    """A listener, judged. ``unserved``: it is accepted, but has no certificate that can be used.

    ``id`` is its name among all listeners of its Gateway, those of ListenerSets included.
    """

    id: str
    name: str
    protocol: str
    port: int
    hostname: str
    kinds: tuple[RouteGroupKind, ...]
    namespaces: RouteNamespaces
    refused: Problem | None = None  # Accepted
    conflict: Problem | None = None  # Conflicted
    unresolved: Problem | None = None  # ResolvedRefs
    unserved: Problem | None = None  # Programmed
    scheme: Literal["http", "https"] = "http"

    @property
    def is_served(self) -> bool:
        return self.refused is None and self.unserved is None

    @property
    def has_place(self) -> bool:
        """Whether port and hostname are its own: also while what it refers to is away, lest another one takes them."""
        return self.refused is None or self.refused.reason == NO_AUTHORITY

    @property
    def family(self) -> str:
        """The protocols that can share a port with this one; "" for one that is in nobody's way."""
        return _FAMILIES.get(self.protocol, _UNSERVED.get(self.protocol, ""))


def judge(specs: Sequence[ListenerSpec], *, reserved_ports: Collection[int], prefix: str = "") -> tuple[Listener, ...]:
    """Return the listeners of a Gateway or ListenerSet, each with its problems."""
    families = {port: _families(specs, port) for port in {spec.port for spec in specs}}
    twins = Counter(_identity(spec) for spec in specs)
    return tuple(
        _judged(
            spec,
            prefix + spec.name,
            _conflict(spec, families[spec.port], twins),
            _refusal(spec, reserved_ports),
        )
        for spec in specs
    )


def refuse(listener: Listener, problem: Problem) -> Listener:
    """Return the listener refused."""
    return structs.replace(listener, refused=problem)


def conflict_with_others(listener: Listener, problem: Problem) -> Listener:
    """Return the listener in conflict with one of another owner."""
    return structs.replace(listener, refused=problem, conflict=problem)


def to_wire(listener: Listener) -> wire.Listener:
    """Return a served listener as ghost knows it. Listeners on one port share its socket."""
    return wire.Listener(
        name=listener.id,
        socket=socket_name(listener.scheme, listener.port),
        port=listener.port,
        scheme=listener.scheme,
        hostname=listener.hostname,
    )


def status_of(listener: Listener, attached_routes: int, generation: int, *, overlaps: bool = False) -> ListenerStatus:
    """Return the status of a listener, with Programmed left open where it is served."""
    invalid = listener.conflict or (
        Problem("Invalid", listener.refused.message) if listener.refused else listener.unserved
    )
    return ListenerStatus(
        listener.name,
        tuple(RouteKind(kind.group, kind.kind) for kind in listener.kinds),
        attached_routes,
        (
            positive("Accepted", listener.refused, generation),
            unprogrammed(invalid, generation),
            positive("ResolvedRefs", listener.unresolved, generation),
            conflicted(listener.conflict, generation),
            *((overlapping(listener.port, listener.hostname, generation),) if overlaps else ()),
        ),
    )


def _judged(spec: ListenerSpec, listener_id: str, conflict: Problem | None, refused: Problem | None) -> Listener:
    kinds, unresolved = _kinds(spec)
    return Listener(
        id=listener_id,
        name=spec.name,
        protocol=spec.protocol,
        port=spec.port,
        hostname=hostnames.normal(spec.hostname),
        kinds=kinds,
        namespaces=spec.allowed_routes.namespaces,
        refused=conflict or refused,
        conflict=conflict,
        unresolved=unresolved,
        scheme="https" if spec.protocol == "HTTPS" else "http",
    )


def _kinds(spec: ListenerSpec) -> tuple[tuple[RouteGroupKind, ...], Problem | None]:
    supported = (HTTP_ROUTE,) if spec.protocol in SERVED else ()
    asked = spec.allowed_routes.kinds
    if not asked:
        return supported, None
    strange = [f"{kind.group}/{kind.kind}" for kind in asked if kind not in supported]
    kinds = tuple(kind for kind in dict.fromkeys(asked) if kind in supported)
    if not strange:
        return kinds, None
    message = f"allowedRoutes.kinds: {', '.join(strange)} is not supported on this listener; remove it"
    return kinds, Problem("InvalidRouteKinds", message)


def _refusal(spec: ListenerSpec, reserved_ports: Collection[int]) -> Problem | None:
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
        # Those of others are for others to understand.
        if option.partition("/")[0] in (option, OPTIONS):
            return Problem("UnsupportedValue", f"tls.options: {option} is not known; remove it")
    return None


def _identity(spec: ListenerSpec) -> tuple[int, str, str]:
    return spec.port, spec.protocol, hostnames.normal(spec.hostname)


def _families(specs: Sequence[ListenerSpec], port: int) -> frozenset[str]:
    return frozenset(_FAMILIES[spec.protocol] for spec in specs if spec.port == port and spec.protocol in _FAMILIES)


def _conflict(spec: ListenerSpec, families: frozenset[str], twins: Counter[tuple[int, str, str]]) -> Problem | None:
    if spec.protocol in _FAMILIES and len(families) > 1:
        return Problem("ProtocolConflict", f"other listeners on port {spec.port} speak a protocol that can't share it")
    if twins[_identity(spec)] > 1:
        return Problem(
            "HostnameConflict",
            f"another listener on port {spec.port} has the same hostname ({hostnames.normal(spec.hostname)})",
        )
    return None
