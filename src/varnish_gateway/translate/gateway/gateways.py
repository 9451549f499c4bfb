"""Translate Gateways, in two steps.

Validated:  a Gateway by itself: its class, and its listeners.
Resolved:   the same among other Gateways: a port that an older one has is not available.
Both are None for a Gateway that is not ours. ListenerSets depend on the first and change neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from varnish_gateway import api
from varnish_gateway.api import key_of
from varnish_gateway.translate.conditions import Problem
from varnish_gateway.translate.gateway import addresses, gateway_class, listener_conflicts, listeners
from varnish_gateway.translate.grants import Referrer
from varnish_gateway.translate.incremental.claims import Claim
from varnish_gateway.translate.incremental.dependency import Table
from varnish_gateway.translate.layers import Layer
from varnish_gateway.translate.precedence import precedence
from varnish_gateway.translate.tls import client_validation, termination
from varnish_gateway.translate.tls.material import Material

if TYPE_CHECKING:
    from varnish_gateway.api import Key
    from varnish_gateway.api.gateway_networking import Frontend, RouteNamespaces
    from varnish_gateway.translate.gateway.parameters import Configured
    from varnish_gateway.translate.incremental.dependency import Derived
    from varnish_gateway.translate.incremental.view import View
    from varnish_gateway.translate.listener import ValidatedListener
    from varnish_gateway.translate.options import Options

FIRST = (-1, "")
"""The rank of a Gateway among its ListenerSets: before the oldest of them."""


class ValidatedGateway(Struct, frozen=True):
    generation: int
    created: int
    listeners: tuple[ValidatedListener, ...]
    allowed_listeners: RouteNamespaces
    configured: Configured
    rejected: Problem | None  # Accepted
    unserved: Problem | None  # no listener is served, whatever its own conditions
    unusable: Problem | None  # Programmed
    frontend: Frontend
    material: Material
    has_backend_tls: bool = False  # spec.tls.backend, which is not supported yet
    is_insecure: bool = False  # some port accepts clients without the certificate that it requests


class ResolvedGateway(Struct, frozen=True):
    key: Key
    listeners: tuple[ValidatedListener, ...]
    validated: ValidatedGateway


def validate(key: Key, options: Options, view: View) -> ValidatedGateway | None:
    """Return a Gateway of ours by itself."""
    gateway = view.find(api.Gateway, key.namespace, key.name)
    if gateway is None:
        return None
    found = gateway_class.class_of(gateway, options, view)
    if found is None:
        return None
    validated, material = _secured(gateway, options, view)
    rejected = _rejection(gateway, options)
    if rejected is not None:
        validated = tuple(listeners.reject(listener, rejected) for listener in validated)
    return ValidatedGateway(
        generation=gateway.metadata.generation,
        created=gateway.created,
        listeners=validated,
        allowed_listeners=gateway.spec.allowed_listeners.namespaces,
        configured=found.configured,
        # A class with a problem leaves the last valid configuration in force; a Gateway with one is not served.
        rejected=rejected or found.configured.problem,
        unserved=rejected,
        unusable=addresses.unusable(gateway, options, found.configured.parameters),
        frontend=gateway.spec.tls.frontend,
        material=material,
        has_backend_tls=gateway.spec.tls.backend is not None,
        is_insecure=client_validation.is_insecure(gateway.spec.tls.frontend),
    )


def _secured(gateway: api.Gateway, options: Options, view: View) -> termination.Secured:
    """Return the validated listeners with their certificates."""
    spec, referrer = gateway.spec, Referrer(gateway.kind, gateway.metadata.namespace)
    validated = listeners.validate(spec.listeners, reserved_ports=options.reserved_ports)
    requests = [
        termination.TlsRequest(listener, each.tls, referrer)
        for listener, each in zip(validated, spec.listeners, strict=True)
    ]
    return termination.secure(requests, spec.tls.frontend, key_of(gateway), view, options.tls_limit)


def _rejection(gateway: api.Gateway, options: Options) -> Problem | None:
    if (unsupported := addresses.unsupported(gateway, options)) is not None:
        return unsupported
    infrastructure = gateway.spec.infrastructure
    if infrastructure is not None and infrastructure.parameters_ref is not None:
        message = "infrastructure.parametersRef is not supported; use the GatewayClass's parametersRef"
        return Problem("InvalidParameters", message)
    return None


def claims_of(key: Key, gateway: ValidatedGateway) -> dict[Derived, Claim]:
    """Return what a Gateway claims: its listeners win over those of its ListenerSets."""
    on_a_machine = Claim(precedence(gateway.created, key), key)
    return listener_conflicts.claims_of(gateway.listeners, key, Claim(FIRST, key), on_a_machine)


def resolve(key: Key, options: Options, view: View) -> ResolvedGateway | None:
    """Return a Gateway of ours among the others."""
    found = view.get(VALIDATED, key)
    if found is None:
        return None
    if not options.one_machine:
        return ResolvedGateway(key, found.listeners, found)
    on_machine = (listener_conflicts.on_machine(listener, key, view) for listener in found.listeners)
    return ResolvedGateway(key, tuple(on_machine), found)


VALIDATED: Table[ValidatedGateway] = Table("validated Gateway")
VALIDATE = Layer(table=VALIDATED, kinds=(api.Gateway.kind,), compute=validate, claims=claims_of)
RESOLVED: Table[ResolvedGateway] = Table("resolved Gateway")
RESOLVE = Layer(table=RESOLVED, kinds=(api.Gateway.kind,), compute=resolve)
