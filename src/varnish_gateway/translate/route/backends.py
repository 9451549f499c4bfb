"""Resolve a route's backendRefs.

In:   one BackendRef and the namespace of the route that holds it.
Out:  the pool that it names, or why it can't be used. The order of checks decides which
      reason a user sees: without a grant, no message reveals anything about another namespace.
A Service without endpoints is resolved: that is decided where endpoints are known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from varnish_gateway import api
from varnish_gateway.api import Key
from varnish_gateway.ir import wire
from varnish_gateway.translate.conditions import Problem, listed
from varnish_gateway.translate.grants import Referrer, not_permitted
from varnish_gateway.translate.policy import backend_tls

if TYPE_CHECKING:
    from varnish_gateway.api.core import ServicePort
    from varnish_gateway.api.gateway_networking import BackendRef
    from varnish_gateway.translate.incremental.view import View

SUPPORTED_APP_PROTOCOLS = (None, "", "http", "kubernetes.io/ws")


def resolve(ref: BackendRef, *, route_namespace: str, allow_external_name: bool, view: View) -> wire.Backend | Problem:
    """Return the target of ref with its weight, or why it can't be used."""
    if ref.group != "" or ref.kind != "Service":
        return Problem(
            "InvalidKind", f"backendRef {ref.name}: {ref.group or 'core'}/{ref.kind} is not supported; use a Service"
        )
    namespace = ref.namespace or route_namespace
    target = Key("Service", namespace, ref.name)
    if (problem := not_permitted(Referrer("HTTPRoute", route_namespace), target, view)) is not None:
        return problem
    service = view.find(api.Service, namespace, ref.name)
    if service is None:
        return Problem("BackendNotFound", f"Service {namespace}/{ref.name} does not exist")
    if ref.port is None:
        return Problem("BackendNotFound", f"backendRef to Service {namespace}/{ref.name} names no port; set it")
    if service.spec.type == "ExternalName":
        found = _external(ref, service, namespace, allowed=allow_external_name)
    else:
        found = _of_port(ref, service, namespace)
    return found if isinstance(found, Problem) else _without_tls(found, service, namespace, view)


def _without_tls(found: wire.Backend, service: api.Service, namespace: str, view: View) -> wire.Backend | Problem:
    """Return the backend unless a policy requires TLS to its port."""
    name = next((port.name for port in service.spec.ports if port.port == found.port), "")
    return backend_tls.required(namespace, service.metadata.name, found.port, found.port_name or name, view) or found


def _of_port(ref: BackendRef, service: api.Service, namespace: str) -> wire.Backend | Problem:
    ports = [port for port in service.spec.ports if port.port == ref.port]
    if not ports:
        has = listed([str(port.port) for port in service.spec.ports], ", ") or "none"
        return Problem("BackendNotFound", f"Service {namespace}/{ref.name} has no port {ref.port} (it has {has})")
    port = next((port for port in ports if port.protocol == "TCP"), ports[0])
    if (problem := _unsupported(port, f"Service {namespace}/{ref.name}")) is not None:
        return problem
    return wire.Backend(weight=ref.weight, service=f"{namespace}/{ref.name}", port=ref.port, port_name=port.name)


def _external(ref: BackendRef, service: api.Service, namespace: str, *, allowed: bool) -> wire.Backend | Problem:
    if not allowed:
        return Problem("InvalidKind", f"Service {namespace}/{ref.name} is an ExternalName, which is not allowed here")
    if not service.spec.external_name:
        return Problem("BackendNotFound", f"ExternalName Service {namespace}/{ref.name} names no host")
    for port in service.spec.ports:
        if port.port == ref.port and (problem := _unsupported(port, f"Service {namespace}/{ref.name}")) is not None:
            return problem
    return wire.Backend(
        weight=ref.weight, service=f"{namespace}/{ref.name}", port=ref.port, external=service.spec.external_name
    )


def _unsupported(port: ServicePort, service: str) -> Problem | None:
    if port.protocol != "TCP":
        return Problem(
            "UnsupportedProtocol", f"port {port.port} of {service} is {port.protocol}, not TCP; use a TCP port"
        )
    if port.app_protocol in SUPPORTED_APP_PROTOCOLS:
        return None
    return Problem(
        "UnsupportedProtocol",
        f"port {port.port} of {service} has the appProtocol {port.app_protocol}; use http or kubernetes.io/ws",
    )
