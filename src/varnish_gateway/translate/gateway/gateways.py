"""Translate Gateways, in two steps.

Draft:    a Gateway by itself: its class, its listeners judged.
Settled:  the same among other Gateways: a port that an older one has is not available.
          Routes look at the listeners of this.
Both are None for a Gateway that is not ours. Its ListenerSets come after it and change neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET, Struct

from varnish_gateway import api, ir
from varnish_gateway.translate.conditions import Problem, positive, unprogrammed
from varnish_gateway.translate.gateway import addresses, gateway_class, listeners, owners
from varnish_gateway.translate.grants import Owner
from varnish_gateway.translate.incremental.claims import Claim, machine_port, rank
from varnish_gateway.translate.tls import client_validation, termination

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from varnish_gateway.api import Key
    from varnish_gateway.api.gateway_networking import Frontend, RouteNamespaces
    from varnish_gateway.translate.gateway.listeners import Listener
    from varnish_gateway.translate.gateway.parameters import Configured
    from varnish_gateway.translate.incremental.view import View
    from varnish_gateway.translate.options import Options

FIRST = (-1, "")
"""The rank of a Gateway among its ListenerSets: before the oldest of them."""


class Draft(Struct, frozen=True):
    generation: int
    created: int
    listeners: tuple[Listener, ...]
    allowed_listeners: RouteNamespaces
    configured: Configured
    refused: Problem | None  # Accepted
    unserved: Problem | None  # no listener is served, whatever it asks for
    unusable: Problem | None  # Programmed
    frontend: Frontend
    material: termination.Material
    is_insecure: bool = False  # clients are let in somewhere without a certificate that was asked for


class Settled(Struct, frozen=True):
    key: Key
    listeners: tuple[Listener, ...]
    draft: Draft

    @property
    def gateway(self) -> Key:
        return self.key


def draft(key: Key, options: Options, view: View) -> Draft | None:
    """Return a Gateway of ours by itself."""
    gateway = view.find(api.Gateway, key.namespace, key.name)
    if gateway is None:
        return None
    wanted = gateway.spec.gateway_class_name
    found = view.gateway_class(wanted)
    if found is None and options.assume_class and wanted == options.class_name and view.classless():
        found = gateway_class.ASSUMED
    if found is None:
        return None
    judged, material = _secured(gateway, options, view)
    refused = _refusal(gateway, options)
    if refused is not None:
        judged = tuple(listeners.refuse(listener, refused) for listener in judged)
    return Draft(
        generation=gateway.metadata.generation,
        created=gateway.created,
        listeners=judged,
        allowed_listeners=gateway.spec.allowed_listeners.namespaces,
        configured=found.configured,
        # A class at fault does not stop what is in force; a Gateway that asks for what we don't have is not served.
        refused=refused or found.configured.problem,
        unserved=refused,
        unusable=addresses.unusable(gateway, options, found.configured.parameters),
        frontend=gateway.spec.tls.frontend,
        material=material,
        is_insecure=client_validation.is_insecure(gateway.spec.tls.frontend),
    )


def _secured(gateway: api.Gateway, options: Options, view: View) -> termination.Secured:
    """Return the listeners, judged, with their certificates."""
    spec, owner = gateway.spec, Owner(gateway.kind, gateway.metadata.namespace)
    judged = listeners.judge(spec.listeners, reserved_ports=options.reserved_ports)
    asked = [termination.Asked(listener, of.tls, owner) for listener, of in zip(judged, spec.listeners, strict=True)]
    return termination.secure(asked, spec.tls.frontend, owner, view, options.tls_limit)


def settle(key: Key, options: Options, view: View) -> Settled | None:
    """Return a Gateway of ours among the others."""
    found = view.draft(key)
    if found is None:
        return None
    if not options.one_machine:
        return Settled(key, found.listeners, found)
    return Settled(key, tuple(on_machine(listener, key, view) for listener in found.listeners), found)


def claims_of(key: Key, found: Draft | None) -> dict[Key, Claim]:
    """Return what a Gateway claims: its listeners go before those of ListenerSets."""
    if found is None:
        return {}
    on_a_machine = Claim(rank(found.created, key), key)
    return owners.claims_of(found.listeners, key, Claim(FIRST, key), on_a_machine)


def status_of(
    gateway: Settled, attached: Mapping[str, int], listener_sets: int, overlapping: Collection[str]
) -> ir.GatewayStatus:
    """Return the status of a Gateway, with Programmed left open where something is served.

    ``listener_sets`` says how many ListenerSets are accepted; ``overlapping`` are ids of listeners.
    """
    generation = gateway.draft.generation
    unserved = None if listener_sets else owners.none_served(gateway.listeners)
    # One that only waits for what it refers to is accepted: there is nothing wrong with the Gateway itself.
    is_waiting = any(listener.refused is None for listener in gateway.listeners)
    refused = gateway.draft.refused or (None if is_waiting else unserved)
    accepted = owners.acceptance(refused, gateway.listeners, generation)
    problem = refused or unserved
    unusable = Problem("Invalid", problem.message) if problem else gateway.draft.unusable
    return ir.GatewayStatus(
        addresses=(),
        conditions=(accepted, unprogrammed(unusable, generation), _resolved(gateway), *_insecure(gateway)),
        listeners=tuple(
            listeners.status_of(
                listener, attached.get(listener.name, 0), generation, overlaps=listener.id in overlapping
            )
            for listener in gateway.listeners
        ),
        attached_listener_sets=listener_sets or UNSET,
    )


def on_machine(listener: Listener, gateway: Key, view: View) -> Listener:
    """Return a listener of a Gateway; refused where its port is another's on this machine."""
    winner = view.winner(machine_port(listener.port)) if listener.refused is None else None
    if winner is None or winner.holder == gateway:
        return listener
    message = f"port {listener.port} belongs to {winner.holder}, by age or name; choose another one"
    return listeners.refuse(listener, Problem("PortUnavailable", message))


def _refusal(gateway: api.Gateway, options: Options) -> Problem | None:
    if (unsupported := addresses.unsupported(gateway, options)) is not None:
        return unsupported
    infrastructure = gateway.spec.infrastructure
    if infrastructure is not None and infrastructure.parameters_ref is not None:
        message = "infrastructure.parametersRef is not supported; use the GatewayClass's parametersRef"
        return Problem("InvalidParameters", message)
    return None


def _resolved(gateway: Settled) -> ir.Condition:
    unresolved = [listener for listener in gateway.listeners if listener.unresolved is not None]
    seen = f"see the conditions of: {owners.names(unresolved)}"
    problem = Problem("ListenersNotResolved", seen) if unresolved else None
    return positive("ResolvedRefs", problem, gateway.draft.generation)


def _insecure(gateway: Settled) -> Iterator[ir.Condition]:
    if gateway.draft.is_insecure:
        message = "tls.frontend: AllowInsecureFallback lets clients in whatever certificate they show"
        kind, reason = "InsecureFrontendValidationMode", "ConfigurationChanged"
        yield ir.Condition(kind, "True", reason, message, gateway.draft.generation)
