"""Validate VarnishCachePolicies, and find the one that is in force somewhere.

Validated:  a policy by itself: its target, and what ghost gets of it.
In force:   the policy of the most specific of several targets, as it travels to one Gateway.

A policy with a fault is off: its target is not cached. Without it the target would be cached by a less specific
policy, which may be wrong for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, structs

from varnish_gateway import api, ir
from varnish_gateway.ir import wire
from varnish_gateway.translate.conditions import Problem, summary
from varnish_gateway.translate.incremental.dependency import Table
from varnish_gateway.translate.layers import Layer
from varnish_gateway.translate.policy import attachment
from varnish_gateway.translate.policy.attachment import AttachmentTarget
from varnish_gateway.translate.policy.cache_fields import policy_name, translate_fields
from varnish_gateway.translate.policy.cache_patterns import CompiledCachePolicy, compile_patterns, has_patterns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from varnish_gateway.api import Key
    from varnish_gateway.translate.incremental.claims import Claim
    from varnish_gateway.translate.incremental.dependency import Derived
    from varnish_gateway.translate.incremental.view import View
    from varnish_gateway.translate.options import Options

KIND = api.VarnishCachePolicy.kind
OFF = "; until then nothing is cached for its target, not even by a less specific policy"


class ValidatedCachePolicy(Struct, frozen=True):
    """``policy`` is what ghost gets, off where there is a problem. ``target`` is None where nothing can be its target.

    ``charge`` is what its patterns take when compiled. ``uncompiled`` is the newest version, as long as its patterns
    wait for that; until then the previous version is in force, or none where ``is_pending``. Those of a policy without
    a place wait for one: only users who may attach something have patterns compiled.
    """

    generation: int
    created: int
    target: AttachmentTarget | None
    policy: wire.CachePolicy
    problem: Problem | None = None
    charge: int = 0
    has_patterns: bool = False
    is_pending: bool = False
    uncompiled: api.VarnishCachePolicy | None = None


def validate(key: Key, options: Options, view: View) -> ValidatedCachePolicy | None:
    """Return a policy by itself."""
    policy = view.find(api.VarnishCachePolicy, key.namespace, key.name)
    if policy is None:
        return None
    target = attachment.target_of(key, policy.spec.target_ref)
    if isinstance(target, Problem):
        return _faulty(policy, None, target)
    fields, problems = translate_fields(policy)
    if (problem := summary(problems)) is not None:
        return _faulty(policy, target, Problem(problem.reason, problem.message + OFF))
    return _in_version(policy, target, fields, options, view)


def _in_version(
    policy: api.VarnishCachePolicy, target: AttachmentTarget, fields: wire.CachePolicy, options: Options, view: View
) -> ValidatedCachePolicy:
    """Return the newest version of a policy whose patterns are compiled."""
    compiled: CompiledCachePolicy | None
    if has_patterns(fields) and not view.get(attachment.ATTACHED, api.key_of(policy)):
        return structs.replace(_faulty(policy, target, None), is_pending=True)
    if options.compiles or not has_patterns(fields):
        compiled = compile_patterns(fields, policy.metadata)
    else:
        compiled = view.find(CompiledCachePolicy, policy.metadata.namespace, policy.metadata.name)
    if compiled is not None and compiled.source == fields:
        return _compiled(policy, target, compiled)
    # This value depends on the past. A program that compiles everything ends with the same values.
    before = view.get(VALIDATED, api.key_of(policy))
    if before is not None and not before.is_pending:
        return structs.replace(before, uncompiled=policy)
    return structs.replace(_faulty(policy, target, None), has_patterns=True, is_pending=True, uncompiled=policy)


def _compiled(
    policy: api.VarnishCachePolicy, target: AttachmentTarget, compiled: CompiledCachePolicy
) -> ValidatedCachePolicy:
    if compiled.fault is not None:
        return _faulty(policy, target, Problem("Invalid", compiled.fault + OFF))
    return ValidatedCachePolicy(
        generation=policy.metadata.generation,
        created=policy.created,
        target=target,
        policy=compiled.source,
        charge=compiled.charge,
        has_patterns=has_patterns(compiled.source),
    )


def _faulty(
    policy: api.VarnishCachePolicy, target: AttachmentTarget | None, problem: Problem | None
) -> ValidatedCachePolicy:
    off = wire.CachePolicy(name=policy_name(policy), off=True)
    return ValidatedCachePolicy(policy.metadata.generation, policy.created, target, off, problem)


def claims_of(key: Key, policy: ValidatedCachePolicy) -> dict[Derived, Claim]:
    """Return what a policy claims: its target."""
    return attachment.claims_of(key, policy.created, () if policy.target is None else (policy.target,))


def publish(delta: ir.Delta, key: Key, before: ValidatedCachePolicy | None, after: ValidatedCachePolicy | None) -> None:
    """Add the policy whose patterns have to be compiled now, None for one that waits no longer."""
    was, now = (policy.uncompiled if policy else None for policy in (before, after))
    if was is not now:
        delta.uncompiled[key] = now
    if before is not None and (before.has_patterns or was) and (after is None or not (after.has_patterns or now)):
        delta.released.add(key)


# -- in force ----------------------------------------------------------------------------


def in_force(targets: Iterable[AttachmentTarget], gateway: Key, view: View) -> wire.CachePolicy | None:
    """Return the policy of the most specific target, as it travels to a Gateway."""
    holder = attachment.most_specific(KIND, targets, view)
    return None if holder is None else on_gateway(holder, gateway, view)


def on_gateway(holder: Key, gateway: Key, view: View) -> wire.CachePolicy | None:
    """Return a policy as it travels to a Gateway: off where its namespace has too many patterns there."""
    found = view.get(VALIDATED, holder)
    if found is None:
        return None
    if found.charge and view.quota_exceeded(gateway, holder) is not None:
        return off(found.policy)
    return found.policy


def off(policy: wire.CachePolicy) -> wire.CachePolicy:
    """Return what remains of a policy that can't be carried out."""
    return wire.CachePolicy(name=policy.name, off=True)


VALIDATED: Table[ValidatedCachePolicy] = Table("validated VarnishCachePolicy")
VALIDATE = Layer(table=VALIDATED, kinds=(KIND,), compute=validate, claims=claims_of, publish=publish)
