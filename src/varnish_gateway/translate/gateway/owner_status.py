"""The statuses of Gateways and ListenerSets, with the number of routes attached to each listener.

In:   a Gateway or ListenerSet, resolved, and the tally of its routes.
Out:  its status. Programmed is left Unknown where something is served: see programmed.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from varnish_gateway import api, ir
from varnish_gateway.translate.conditions import Problem, keys_copied, policy_affected, positive, unprogrammed
from varnish_gateway.translate.gateway import gateways, listener_sets, listeners
from varnish_gateway.translate.gateway.acceptance import acceptance, names, none_served
from varnish_gateway.translate.gateway.effective_gateway import EFFECTIVE
from varnish_gateway.translate.incremental.dependency import Table
from varnish_gateway.translate.layers import Layer
from varnish_gateway.translate.policy import attachment, cache_policy
from varnish_gateway.translate.policy.attachment import AttachmentTarget

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from varnish_gateway.api import Key
    from varnish_gateway.translate.gateway.gateways import ResolvedGateway
    from varnish_gateway.translate.gateway.listener_sets import ResolvedListenerSet
    from varnish_gateway.translate.incremental.view import View
    from varnish_gateway.translate.listener import ValidatedListener
    from varnish_gateway.translate.options import Options

UNPROGRAMMED = {"ParentNotAccepted": "ParentNotProgrammed"}
"""The reason of a ListenerSet's Programmed where it is not that of Accepted."""


def gateway_status(key: Key, _: Options, view: View) -> ir.GatewayStatus | None:
    """Return the status of a Gateway of ours."""
    gateway, effective = view.get(gateways.RESOLVED, key), view.get(EFFECTIVE, key)
    if gateway is None or effective is None:
        return None
    generation = gateway.validated.generation
    return ir.GatewayStatus(
        addresses=(),
        conditions=(
            *_conditions(gateway, effective.accepted_sets),
            *_affected(AttachmentTarget(key), generation, view),
        ),
        listeners=_listener_statuses(key, gateway.listeners, generation, view, effective.overlapping),
        attached_listener_sets=effective.accepted_sets or UNSET,
    )


def _conditions(gateway: ResolvedGateway, accepted_sets: int) -> Iterator[ir.Condition]:
    validated, generation = gateway.validated, gateway.validated.generation
    unserved = None if accepted_sets else none_served(gateway.listeners)
    # A listener that only waits for a certificate is accepted: nothing is wrong with the Gateway itself.
    is_waiting = any(listener.rejected is None for listener in gateway.listeners)
    rejected = validated.rejected or (None if is_waiting else unserved)
    problem = rejected or unserved
    yield acceptance(rejected, gateway.listeners, generation)
    yield unprogrammed(Problem("Invalid", problem.message) if problem else validated.unusable, generation)
    yield _resolved_refs(gateway)
    if validated.has_backend_tls:
        message = "tls.backend is not supported yet: backends get no client certificate, and plain backends plain HTTP"
        yield ir.Condition("UnsupportedFields", "True", "NotSupported", message, generation)
    if validated.is_insecure:
        message = "tls.frontend: AllowInsecureFallback lets clients in whatever certificate they show"
        reason = "ConfigurationChanged"
        yield ir.Condition("InsecureFrontendValidationMode", "True", reason, message, generation)


def _listener_statuses(
    owner: Key,
    validated: Sequence[ValidatedListener],
    generation: int,
    view: View,
    overlapping: AbstractSet[str] = frozenset(),
) -> tuple[ir.ListenerStatus, ...]:
    attached = view.tally(owner)
    return tuple(
        listeners.status_of(
            listener,
            attached.get(listener.name, 0),
            generation,
            overlaps=listener.id in overlapping,
            notices=_affected(AttachmentTarget(owner, listener.name), generation, view),
        )
        for listener in validated
    )


def _affected(target: AttachmentTarget, generation: int, view: View) -> tuple[ir.Condition, ...]:
    """Return the condition of a Gateway, ListenerSet or listener that a cache policy targets."""
    holder = attachment.holder(cache_policy.KIND, target, view)
    return () if holder is None else (policy_affected(cache_policy.KIND, [(holder, "")], generation),)


def _resolved_refs(gateway: ResolvedGateway) -> ir.Condition:
    unresolved = [listener for listener in gateway.listeners if listener.unresolved is not None]
    problem = Problem("ListenersNotResolved", f"see the conditions of: {names(unresolved)}") if unresolved else None
    return positive("ResolvedRefs", problem, gateway.validated.generation)


def listener_set_status(key: Key, options: Options, view: View) -> ir.ListenerSetStatus | None:
    """Return the status of a ListenerSet of a Gateway of ours."""
    listener_set = view.get(listener_sets.RESOLVED, key)
    if listener_set is None:
        return None
    generation = listener_set.validated.generation
    rejected = listener_set.rejected
    unusable = Problem(UNPROGRAMMED.get(rejected.reason, rejected.reason), rejected.message) if rejected else None
    copied = () if options.one_machine or rejected else _copied_keys(listener_set)
    return ir.ListenerSetStatus(
        conditions=(
            acceptance(rejected, listener_set.listeners, generation),
            unprogrammed(unusable, generation),
            *((keys_copied(copied, listener_set.gateway, generation),) if copied else ()),
            *_affected(AttachmentTarget(key), generation, view),
        ),
        listeners=_listener_statuses(key, listener_set.listeners, generation, view),
    )


def _copied_keys(listener_set: ResolvedListenerSet) -> set[Key]:
    """Return the Secrets of other namespaces than the Gateway's whose keys its pods get."""
    certificates = listener_set.validated.material.certificates
    served = (listener.id for listener in listener_set.listeners if listener.is_served)
    sources = (file.source for one in served for file in certificates.get(one, ()) if file.source is not None)
    return {source for source in sources if source.namespace != listener_set.gateway.namespace}


GATEWAY_STATUSES: Table[ir.GatewayStatus] = Table("status of a Gateway")
GATEWAYS = Layer(
    table=GATEWAY_STATUSES, kinds=(api.Gateway.kind,), compute=gateway_status, status=lambda status: status
)
LISTENER_SET_STATUSES: Table[ir.ListenerSetStatus] = Table("status of a ListenerSet")
LISTENER_SETS = Layer(
    table=LISTENER_SET_STATUSES,
    kinds=(api.ListenerSet.kind,),
    compute=listener_set_status,
    status=lambda status: status,
)
