"""Where a policy has its target: the Gateways that it is about, or why there are none.

In:   the target of a policy.
Out:  Placement. None where the target is not ours to answer for: in a cluster it may be another controller's.
A target in a section that its object doesn't have has a problem that says which ones there are.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from msgspec import Struct

from varnish_gateway import api
from varnish_gateway.translate.conditions import Problem, listed
from varnish_gateway.translate.gateway.route_parents import PARENTS
from varnish_gateway.translate.layers import Layer
from varnish_gateway.translate.policy.attachment import ATTACHED, TARGET_KINDS, target_of
from varnish_gateway.translate.route.parents import answered_refs, taken_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from varnish_gateway.api import Key
    from varnish_gateway.translate.incremental.view import View
    from varnish_gateway.translate.options import Options
    from varnish_gateway.translate.policy.attachment import AttachmentTarget

NOT_FOUND = "TargetNotFound"


class Placement(Struct, frozen=True):
    """``gateways`` are the ancestors that the status names, ``attached`` those of them that have the policy."""

    gateways: tuple[Key, ...] = ()
    attached: tuple[Key, ...] = ()
    problem: Problem | None = None


def place(target: AttachmentTarget, options: Options, view: View) -> Placement | None:
    """Return where a target is."""
    key = target.object
    found = view.find(TARGET_KINDS[key.kind], key.namespace, key.name)
    if found is None:
        message = f"targetRef: {key} does not exist; correct the name, or create it in the namespace of the policy"
        return Placement(problem=Problem(NOT_FOUND, message))
    if isinstance(found, api.HTTPRoute):
        placement, names = _of_route(found, options, view)
    else:
        placement, names = _of_listeners(key, view)
    if placement is None:
        # Elsewhere its Gateway may be another controller's; on one machine there is no other.
        problem = Problem(NOT_FOUND, f"targetRef: {key} has no Gateway that is served here; correct its parentRefs")
        return Placement(problem=problem) if options.one_machine else None
    if target.section and target.section not in names:
        return Placement(placement.gateways, problem=Problem(NOT_FOUND, _unknown_section(target, names)))
    return placement


def is_attached(key: Key, options: Options, view: View) -> bool | None:
    """Return True for a policy whose target exists and is attached to a Gateway of ours."""
    policy = view.find(api.VarnishCachePolicy, key.namespace, key.name)
    target = None if policy is None else target_of(key, policy.spec.target_ref)
    if target is None or isinstance(target, Problem):
        return None
    found = place(target, options, view)
    return True if found is not None and found.attached else None


def _of_route(route: api.HTTPRoute, options: Options, view: View) -> tuple[Placement | None, Sequence[str]]:
    parents = answered_refs(route, options, view)
    gateways = tuple(sorted({parent.gateway for parent in parents}))
    names = [rule.name for rule in route.spec.rules if rule.name]
    return Placement(gateways, tuple(sorted(taken_by(parents)))) if gateways else None, names


def _of_listeners(key: Key, view: View) -> tuple[Placement | None, Sequence[str]]:
    parent = view.get(PARENTS, key)
    if parent is None:
        return None, ()
    attached = (parent.gateway,) if parent.listeners else ()  # a ListenerSet that isn't allowed has none
    return Placement((parent.gateway,), attached), [listener.name for listener in parent.listeners]


def _unknown_section(target: AttachmentTarget, names: Sequence[str]) -> str:
    what = target.section_kind
    message = f"targetRef.sectionName: {target.object} has no {what} {target.section}"
    if near := difflib.get_close_matches(target.section, names, n=1):
        return f"{message}; did you mean {near[0]}?"
    has = listed(sorted(set(names)), ", ")
    return f"{message}; it has {has}" if has else f"{message}; none of its {what}s has a name; give it one"


ATTACH = Layer(table=ATTACHED, kinds=(api.VarnishCachePolicy.kind,), compute=is_attached)
