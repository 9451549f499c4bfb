"""Attach policies to their targets: which policy of a kind applies where.

In:   the targetRef of a policy; the targets that a rule, route or listener is reached by.
Out:  the target, or why there can't be one; the policy that holds a target; the statuses of policies.

A policy claims its target. The oldest policy of a target holds it, then the first by name; the others are in conflict
until it is gone. Of several targets the most specific one counts, and its policy replaces the others completely.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from varnish_gateway import api, ir
from varnish_gateway.api import Key
from varnish_gateway.api.gateway_networking import GROUP
from varnish_gateway.translate.conditions import Problem, positive
from varnish_gateway.translate.incremental.claims import Claim
from varnish_gateway.translate.incremental.dependency import Derived, Table
from varnish_gateway.translate.precedence import precedence

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from varnish_gateway.api.varnish import CachePolicyTarget
    from varnish_gateway.translate.incremental.view import View

TARGET_KINDS: Mapping[str, type[api.Object]] = {
    kind.kind: kind for kind in (api.Gateway, api.ListenerSet, api.HTTPRoute)
}


class AttachmentTarget(NamedTuple):
    """``section`` is a listener of a Gateway or ListenerSet, or a rule of a route; "" is all of them."""

    object: Key
    section: str = ""

    def __str__(self) -> str:
        return f"{self.section_kind} {self.section} of {self.object}" if self.section else str(self.object)

    @property
    def section_kind(self) -> str:
        return "rule" if self.object.kind == api.HTTPRoute.kind else "listener"


Target = AttachmentTarget | Key
"""Policies of other kinds may have targets of their own kinds, as keys."""


def target_of(policy: Key, ref: CachePolicyTarget) -> AttachmentTarget | Problem:
    """Return what a policy targets, or why it can't."""
    if ref.group != GROUP or ref.kind not in TARGET_KINDS:
        kinds = ", ".join(TARGET_KINDS)
        message = f"targetRef: {ref.group or 'core'}/{ref.kind} can't be a target; use one of {kinds} of {GROUP}"
        return Problem("Invalid", message)
    if ref.namespace not in (None, "", policy.namespace):
        message = (
            f"targetRef.namespace: a policy can only target objects of its own namespace, {policy.namespace}; remove "
            f"the field, or create the policy in the namespace {ref.namespace}"
        )
        return Problem("Invalid", message)
    return AttachmentTarget(Key(ref.kind, policy.namespace, ref.name), ref.section_name)


def claims_of(policy: Key, created: int, targets: Iterable[Target]) -> dict[Derived, Claim]:
    """Return what a policy claims: its targets."""
    claim = Claim(precedence(created, policy), policy)
    return {_place(policy.kind, target): claim for target in targets}


def holder(kind: str, target: Target, view: View) -> Key | None:
    """Return the policy of a kind that holds a target."""
    claim = view.winner(_place(kind, target))
    return None if claim is None else claim.holder


def most_specific(kind: str, targets: Iterable[AttachmentTarget], view: View) -> Key | None:
    """Return the policy of a kind that counts, of targets from the most to the least specific one."""
    return next((found for target in targets if (found := holder(kind, target, view)) is not None), None)


def conflict(policy: Key, target: AttachmentTarget, view: View) -> Problem | None:
    """Return a problem where another policy holds the target."""
    held = holder(policy.kind, target, view)
    if held is None or held == policy:
        return None
    message = (
        f"{held} is older, or the first by name, and has the same target, {target}; this policy has no effect; remove "
        "one of them, or choose another target"
    )
    return Problem("Conflicted", message)


def status(
    ancestors: Sequence[ir.ParentRef],
    problems: Sequence[Problem | None],
    notices: Sequence[ir.Condition],
    generation: int,
    controller: str,
) -> ir.PolicyStatus:
    """Return the status of a policy: for each ancestor Accepted, with its own problem, and the notices."""
    return ir.PolicyStatus(
        tuple(
            ir.AncestorStatus(ref, controller, (positive("Accepted", problem, generation), *notices))
            for ref, problem in zip(ancestors, problems, strict=True)
        )
    )


def ancestor(key: Key, section: str = "") -> ir.ParentRef:
    """Return a Gateway, or a target whose Gateway isn't known, as the ancestor of a policy."""
    if section:
        return ir.ParentRef(GROUP, key.kind, key.name, key.namespace, section)
    return ir.ParentRef(GROUP, key.kind, key.name, key.namespace)


ATTACHED: Table[bool] = Table("attached VarnishCachePolicy")
"""True for a policy whose target is attached to a Gateway of ours; see placement.py."""


def _place(kind: str, target: Target) -> Derived:
    return Derived(f"{kind} of", target)
