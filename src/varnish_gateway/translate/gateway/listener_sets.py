"""Translate ListenerSets, in two steps like Gateways.

Draft:    a ListenerSet by itself, and whether its Gateway takes it.
Settled:  the same among all listeners of the Gateway: those of the Gateway go first, then those
          of older ListenerSets, then those that come first by namespace/name.
Both are None for a ListenerSet whose Gateway is not ours. One that is not taken has no listeners.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, structs

from varnish_gateway import api, ir
from varnish_gateway.translate.conditions import Problem, unprogrammed
from varnish_gateway.translate.gateway import gateways, listeners, namespaces, owners
from varnish_gateway.translate.gateway.listener_set_index import has_gateway
from varnish_gateway.translate.grants import Owner
from varnish_gateway.translate.incremental.claims import Claim, gateway_hostname, gateway_port, rank
from varnish_gateway.translate.tls import termination

if TYPE_CHECKING:
    from collections.abc import Mapping

    from varnish_gateway.api import Key
    from varnish_gateway.translate.gateway.listeners import Listener
    from varnish_gateway.translate.incremental.view import View
    from varnish_gateway.translate.options import Options

UNPROGRAMMED = {"ParentNotAccepted": "ParentNotProgrammed"}
"""The reason of Programmed where it is not that of Accepted."""


class SetDraft(Struct, frozen=True):
    gateway: Key
    gateway_created: int
    generation: int
    created: int
    listeners: tuple[Listener, ...] = ()
    refused: Problem | None = None  # Accepted
    material: termination.Material = termination.Material()


class SettledSet(Struct, frozen=True):
    key: Key
    listeners: tuple[Listener, ...]
    draft: SetDraft

    @property
    def gateway(self) -> Key:
        return self.draft.gateway

    @property
    def refused(self) -> Problem | None:
        """Why it is not accepted: for itself, or as none of its listeners can be served."""
        return self.draft.refused or owners.none_served(self.listeners)


def draft(key: Key, options: Options, view: View) -> SetDraft | None:
    """Return a ListenerSet of a Gateway of ours by itself."""
    found = view.find(api.ListenerSet, key.namespace, key.name)
    if found is None or not has_gateway(found):
        return None
    parent = view.draft(found.gateway)
    if parent is not None:
        return _attached(found, parent, options, view)
    # Elsewhere a Gateway that we can't see may be another controller's; on one machine there is no other.
    if options.one_machine and view.find(api.Gateway, found.gateway.namespace, found.gateway.name) is None:
        return _detached(found, 0, Problem("ParentNotAccepted", f"parentRef: {found.gateway} does not exist"))
    return None


def settle(key: Key, options: Options, view: View) -> SettledSet | None:
    """Return a ListenerSet among all listeners of its Gateway, and among other Gateways."""
    found = view.set_draft(key)
    if found is None:
        return None
    crowded = view.crowded(key) if found.material.certificates else ()
    roomy = (_without_room(listener) if listener.id in crowded else listener for listener in found.listeners)
    settled = (_among_others(listener, key, found.gateway, view) for listener in roomy)
    if options.one_machine:
        settled = (gateways.on_machine(listener, found.gateway, view) for listener in settled)
    return SettledSet(key, tuple(settled), found)


def claims_of(key: Key, found: SetDraft | None) -> dict[Key, Claim]:
    """Return what a ListenerSet claims of its Gateway, and with it of the machine."""
    if found is None:
        return {}
    gateway = found.gateway
    on_a_machine = Claim(rank(found.gateway_created, gateway), gateway)
    claim = Claim(rank(found.created, key), key)
    return owners.claims_of(found.listeners, gateway, claim, on_a_machine)


def status_of(listener_set: SettledSet, attached: Mapping[str, int]) -> ir.ListenerSetStatus:
    """Return the status of a ListenerSet, with Programmed left open where something is served."""
    generation = listener_set.draft.generation
    refused = listener_set.refused
    unusable = Problem(UNPROGRAMMED.get(refused.reason, refused.reason), refused.message) if refused else None
    return ir.ListenerSetStatus(
        conditions=(
            owners.acceptance(refused, listener_set.listeners, generation),
            unprogrammed(unusable, generation),
        ),
        listeners=tuple(
            listeners.status_of(listener, attached.get(listener.name, 0), generation)
            for listener in listener_set.listeners
        ),
    )


def _attached(found: api.ListenerSet, parent: gateways.Draft, options: Options, view: View) -> SetDraft:
    own, gateway = found.metadata, found.gateway
    if not namespaces.allowed(parent.allowed_listeners, owner=gateway.namespace, guest=own.namespace, view=view):
        message = f"allowedListeners of {gateway} permits no ListenerSet from namespace {own.namespace}"
        return _detached(found, parent.created, Problem("NotAllowed", message))
    judged, material = _secured(found, parent, options, view)
    if parent.unserved is not None:
        refusal = Problem("Invalid", f"{gateway} is not accepted, see its conditions")
        judged = tuple(listeners.refuse(listener, refusal) for listener in judged)
    refused = parent.refused and Problem("ParentNotAccepted", f"{gateway} is not accepted, see its conditions")
    return SetDraft(gateway, parent.created, own.generation, found.created, judged, refused, material)


def _secured(found: api.ListenerSet, parent: gateways.Draft, options: Options, view: View) -> termination.Secured:
    """Return the listeners, judged, with their certificates. What clients have to show is for the Gateway to say."""
    own, specs = found.metadata, found.spec.listeners
    judged = listeners.judge(specs, reserved_ports=options.reserved_ports, prefix=f"{own.namespace}/{own.name}/")
    owner = Owner(found.kind, own.namespace)
    asked = [termination.Asked(listener, spec.tls, owner) for listener, spec in zip(judged, specs, strict=True)]
    return termination.secure(asked, parent.frontend, Owner("Gateway", found.gateway.namespace), view, None)


def _detached(found: api.ListenerSet, gateway_created: int, problem: Problem) -> SetDraft:
    return SetDraft(found.gateway, gateway_created, found.metadata.generation, found.created, (), problem)


def _without_room(listener: Listener) -> Listener:
    if not listener.is_served:
        return listener
    message = "its certificates have no room beside those of other listeners; use another Gateway for some of them"
    return structs.replace(listener, unserved=Problem("Invalid", message))


def _among_others(listener: Listener, key: Key, gateway: Key, view: View) -> Listener:
    """Return the listener, in conflict where one that goes before it is in its way.

    Whose that is is not said: it can be of a namespace that is none of the reader's business.
    """
    port = view.winner(gateway_port(gateway, listener.port))
    if port is not None and port.holder != key and listener.family not in ("", port.family):
        message = f"port {listener.port} of {gateway} has listeners of a protocol that can't share it; choose another"
        return listeners.conflict_with_others(listener, Problem("ProtocolConflict", message))
    if not listener.has_place:
        return listener
    place = view.winner(gateway_hostname(gateway, listener.port, listener.protocol, listener.hostname))
    if place is None or place.holder == key:
        return listener
    message = f"port {listener.port} of {gateway} has a listener for {listener.hostname} already; choose another"
    return listeners.conflict_with_others(listener, Problem("HostnameConflict", message))
