"""Translate Gateways, in two steps.

Draft:    a Gateway by itself: its class, its listeners judged.
Settled:  the same among other Gateways: a port that an older one has is not available.
          Routes look at the listeners of this.
Both are None for a Gateway that is not ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from varnish_gateway import api, ir
from varnish_gateway.translate import addresses, classes, clientvalidation, listeners, tls
from varnish_gateway.translate.conditions import Problem, positive, unprogrammed
from varnish_gateway.translate.grants import Owner

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from varnish_gateway.api import Key
    from varnish_gateway.ir import wire
    from varnish_gateway.translate.listeners import Listener
    from varnish_gateway.translate.options import Options
    from varnish_gateway.translate.parameters import Configured
    from varnish_gateway.translate.view import View


class Draft(Struct, frozen=True):
    generation: int
    created: int
    listeners: tuple[Listener, ...]
    configured: Configured
    refused: Problem | None  # Accepted
    unusable: Problem | None  # Programmed
    material: tls.Material = tls.Material()
    is_insecure: bool = False  # clients are let in somewhere without a certificate that was asked for

    @property
    def ports(self) -> frozenset[int]:
        """The ports that would be its own if it were alone."""
        return frozenset(listener.port for listener in self.listeners if listener.refused is None)


class Settled(Struct, frozen=True):
    key: Key
    listeners: tuple[Listener, ...]
    draft: Draft


def draft(key: Key, options: Options, view: View) -> Draft | None:
    """Return a Gateway of ours by itself."""
    gateway = view.find(api.Gateway, key.namespace, key.name)
    if gateway is None:
        return None
    wanted = gateway.spec.gateway_class_name
    found = view.gateway_class(wanted)
    if found is None and options.assume_class and wanted == options.class_name and view.classless():
        found = classes.ASSUMED
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
        configured=found.configured,
        # A class at fault does not stop what is in force; a Gateway that asks for what we don't have is not served.
        refused=refused or found.configured.problem,
        unusable=addresses.unusable(gateway, options, found.configured.parameters),
        material=material,
        is_insecure=clientvalidation.is_insecure(gateway.spec.tls.frontend),
    )


def _secured(gateway: api.Gateway, options: Options, view: View) -> tls.Secured:
    """Return the listeners, judged, with their certificates."""
    spec, owner = gateway.spec, Owner(gateway.kind, gateway.metadata.namespace)
    judged = listeners.judge(spec.listeners, reserved_ports=options.reserved_ports)
    asked = [tls.Asked(listener, of.tls, owner) for listener, of in zip(judged, spec.listeners, strict=True)]
    return tls.secure(asked, spec.tls.frontend, owner, view, options.tls_limit)


def settle(key: Key, options: Options, view: View) -> Settled | None:
    """Return a Gateway of ours among the others."""
    found = view.draft(key)
    if found is None:
        return None
    if not options.one_machine:
        return Settled(key, found.listeners, found)
    return Settled(key, tuple(_settle(listener, key, view) for listener in found.listeners), found)


def served(gateway: Settled) -> tuple[wire.Listener, ...]:
    """Return the listeners that are to be served."""
    return tuple(listeners.to_wire(listener) for listener in gateway.listeners if listener.is_served)


def tls_of(gateway: Settled) -> ir.Tls:
    """Return what TLS is terminated with on the listeners that are to be served."""
    return tls.assemble((one for one in gateway.listeners if one.is_served), gateway.draft.material)


def status_of(gateway: Settled, attached: Mapping[str, int]) -> ir.GatewayStatus:
    """Return the status of a Gateway, with Programmed left open where something is served."""
    generation = gateway.draft.generation
    refused = gateway.draft.refused
    faulty = [listener for listener in gateway.listeners if not listener.is_served]
    if refused is None and len(faulty) == len(gateway.listeners):
        refused = Problem("ListenersNotValid", f"no listener can be served, see their conditions: {_names(faulty)}")
    accepted = positive("Accepted", refused, generation)
    if refused is None and faulty:
        message = f"not served, see their conditions: {_names(faulty)}"
        accepted = ir.Condition("Accepted", "True", "ListenersNotValid", message, generation)
    unusable = Problem("Invalid", refused.message) if refused else gateway.draft.unusable
    return ir.GatewayStatus(
        addresses=(),
        conditions=(accepted, unprogrammed(unusable, generation), _resolved(gateway), *_insecure(gateway)),
        listeners=tuple(
            listeners.status_of(listener, attached.get(listener.name, 0), generation) for listener in gateway.listeners
        ),
    )


def _settle(listener: Listener, key: Key, view: View) -> Listener:
    if listener.refused is not None or (owner := view.port_owner(listener.port)) in (None, key):
        return listener
    message = f"port {listener.port} belongs to {owner}, by age or name; choose another one"
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
    problem = Problem("ListenersNotResolved", f"see the conditions of: {_names(unresolved)}") if unresolved else None
    return positive("ResolvedRefs", problem, gateway.draft.generation)


def _insecure(gateway: Settled) -> Iterator[ir.Condition]:
    if gateway.draft.is_insecure:
        message = "tls.frontend: AllowInsecureFallback lets clients in whatever certificate they show"
        kind, reason = "InsecureFrontendValidationMode", "ConfigurationChanged"
        yield ir.Condition(kind, "True", reason, message, gateway.draft.generation)


def _names(of: Collection[Listener]) -> str:
    return ", ".join(listener.name for listener in of) or "there is none"
