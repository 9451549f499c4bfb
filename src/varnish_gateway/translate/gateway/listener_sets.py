"""Translate ListenerSets, in two steps like Gateways.

Validated:  a ListenerSet by itself, and whether its Gateway allows it.
Resolved:   the same among all listeners of the Gateway: those of the Gateway win, then those of
            older ListenerSets, then those that come first by namespace/name.
Both are None for a ListenerSet whose Gateway is not ours. One that is not allowed has no listeners.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, structs

from varnish_gateway import api
from varnish_gateway.translate.conditions import Problem, listed
from varnish_gateway.translate.gateway import gateways, listener_conflicts, listeners, namespaces
from varnish_gateway.translate.gateway.acceptance import none_served
from varnish_gateway.translate.gateway.listener_quota import SURPLUS_SETS
from varnish_gateway.translate.gateway.listener_set_index import parent
from varnish_gateway.translate.grants import Referrer
from varnish_gateway.translate.incremental.claims import Claim
from varnish_gateway.translate.incremental.dependency import Table
from varnish_gateway.translate.layers import Layer
from varnish_gateway.translate.precedence import precedence
from varnish_gateway.translate.tls import termination
from varnish_gateway.translate.tls.material import Material
from varnish_gateway.translate.tls.quota import OVER_QUOTA

if TYPE_CHECKING:
    from varnish_gateway.api import Key
    from varnish_gateway.translate.gateway.gateways import ValidatedGateway
    from varnish_gateway.translate.incremental.dependency import Derived
    from varnish_gateway.translate.incremental.view import View
    from varnish_gateway.translate.listener import ValidatedListener
    from varnish_gateway.translate.options import Options


SURPLUS = Problem(
    "Invalid",
    "the listeners of older ListenerSets use up the quota of the Gateway, or that of this namespace, which is a part "
    "of it; use another Gateway, or fewer listeners",
)


class ValidatedListenerSet(Struct, frozen=True):
    gateway: Key
    gateway_created: int
    generation: int
    created: int
    listeners: tuple[ValidatedListener, ...] = ()
    rejected: Problem | None = None  # Accepted
    material: Material = Material()


class ResolvedListenerSet(Struct, frozen=True):
    key: Key
    listeners: tuple[ValidatedListener, ...]
    validated: ValidatedListenerSet

    @property
    def gateway(self) -> Key:
        return self.validated.gateway

    @property
    def rejected(self) -> Problem | None:
        """Why it is not accepted: for itself, or because none of its listeners can be served."""
        return self.validated.rejected or none_served(self.listeners)


def validate(key: Key, options: Options, view: View) -> ValidatedListenerSet | None:
    """Return a ListenerSet of a Gateway of ours by itself."""
    found = view.find(api.ListenerSet, key.namespace, key.name)
    if found is None or (gateway := parent(found)) is None:
        return None
    validated = view.get(gateways.VALIDATED, gateway)
    if validated is not None:
        return _attached(found, validated, options, view)
    # In a cluster, a Gateway that we can't see may be another controller's; on one machine there is no other.
    if options.one_machine and view.find(api.Gateway, gateway.namespace, gateway.name) is None:
        return _detached(found, 0, Problem("ParentNotAccepted", f"parentRef: {gateway} does not exist"))
    return None


def claims_of(key: Key, listener_set: ValidatedListenerSet) -> dict[Derived, Claim]:
    """Return what a ListenerSet claims of its Gateway, and with it of the machine."""
    gateway = listener_set.gateway
    on_a_machine = Claim(precedence(listener_set.gateway_created, gateway), gateway)
    claim = Claim(precedence(listener_set.created, key), key)
    return listener_conflicts.claims_of(listener_set.listeners, gateway, claim, on_a_machine)


def resolve(key: Key, options: Options, view: View) -> ResolvedListenerSet | None:
    """Return a ListenerSet among all listeners of its Gateway, and among other Gateways."""
    found = view.get(VALIDATED, key)
    if found is None:
        return None
    if key in (view.get(SURPLUS_SETS, found.gateway) or ()):
        return ResolvedListenerSet(key, tuple(listeners.reject(one, SURPLUS) for one in found.listeners), found)
    over_quota = (view.get(OVER_QUOTA, found.gateway) or {}).get(key, ()) if found.material.certificates else ()
    carried = (_over_quota(listener) if listener.id in over_quota else listener for listener in found.listeners)
    resolved = (listener_conflicts.in_gateway(listener, key, found.gateway, view) for listener in carried)
    if options.one_machine:
        resolved = (listener_conflicts.on_machine(listener, found.gateway, view) for listener in resolved)
    return ResolvedListenerSet(key, tuple(resolved), found)


def _attached(found: api.ListenerSet, gateway: ValidatedGateway, options: Options, view: View) -> ValidatedListenerSet:
    own, key = found.metadata, found.gateway
    if not namespaces.allowed(gateway.allowed_listeners, owner=key.namespace, guest=own.namespace, view=view):
        message = f"allowedListeners of {key} permits no ListenerSet from namespace {own.namespace}"
        return _detached(found, gateway.created, Problem("NotAllowed", message))
    validated, material = _secured(found, gateway, options, view)
    validated = tuple(_within_ports(listener, gateway) for listener in validated)
    if gateway.unserved is not None:
        problem = Problem("Invalid", f"{key} is not accepted, see its conditions")
        validated = tuple(listeners.reject(listener, problem) for listener in validated)
    rejected = gateway.rejected and Problem("ParentNotAccepted", f"{key} is not accepted, see its conditions")
    return ValidatedListenerSet(key, gateway.created, own.generation, found.created, validated, rejected, material)


def _secured(found: api.ListenerSet, gateway: ValidatedGateway, options: Options, view: View) -> termination.Secured:
    """Return the validated listeners with their certificates. The Gateway decides what clients have to present."""
    own, specs = found.metadata, found.spec.listeners
    prefix = f"{own.namespace}/{own.name}/"
    validated = listeners.validate(specs, reserved_ports=options.reserved_ports, prefix=prefix)
    referrer = Referrer(found.kind, own.namespace)
    requests = [
        termination.TlsRequest(listener, spec.tls, referrer) for listener, spec in zip(validated, specs, strict=True)
    ]
    return termination.secure(requests, gateway.frontend, found.gateway, view, None)


def _within_ports(listener: ValidatedListener, gateway: ValidatedGateway) -> ValidatedListener:
    """Return the listener, not accepted where the class doesn't let ListenerSets open its port.

    A port that the Gateway itself has open costs its pods nothing.
    """
    ports = gateway.configured.listener_sets.ports
    own = (one.port for one in gateway.listeners if one.holds_port)
    if not ports or any(listener.port in allowed for allowed in ports) or listener.port in own:
        return listener
    message = (
        f"the GatewayClassParameters let ListenerSets use the ports {listed([str(one) for one in ports], ', ')} and "
        f"those of the Gateway's own listeners, not {listener.port}; choose one of them"
    )
    return listeners.reject(listener, Problem("PortUnavailable", message))


def _detached(found: api.ListenerSet, gateway_created: int, problem: Problem) -> ValidatedListenerSet:
    return ValidatedListenerSet(found.gateway, gateway_created, found.metadata.generation, found.created, (), problem)


def _over_quota(listener: ValidatedListener) -> ValidatedListener:
    if not listener.is_served:
        return listener
    message = "its certificates exceed the quota of the Gateway; use another Gateway for some of them"
    return structs.replace(listener, unserved=Problem("Invalid", message))


VALIDATED: Table[ValidatedListenerSet] = Table("validated ListenerSet")
VALIDATE = Layer(table=VALIDATED, kinds=(api.ListenerSet.kind,), compute=validate, claims=claims_of)
RESOLVED: Table[ResolvedListenerSet] = Table("resolved ListenerSet")
RESOLVE = Layer(table=RESOLVED, kinds=(api.ListenerSet.kind,), compute=resolve)
