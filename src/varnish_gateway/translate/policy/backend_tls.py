"""Translate BackendTLSPolicies, in two steps.

Validated:  the Service ports that a policy targets. The oldest policy of a target wins.
Resolved:   the same among other policies and routes, as a status with one ancestor for each Gateway
            of ours whose routes use a target.
TLS to backends is not supported yet. A backendRef to a target can't be resolved, so that its share
of the requests is answered with 500: plain HTTP would disclose what the policy wants encrypted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from varnish_gateway import api, ir
from varnish_gateway.api import Key
from varnish_gateway.translate.conditions import Problem
from varnish_gateway.translate.incremental.dependency import Table
from varnish_gateway.translate.layers import Layer
from varnish_gateway.translate.policy import attachment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from varnish_gateway.translate.incremental.claims import Claim
    from varnish_gateway.translate.incremental.dependency import Derived
    from varnish_gateway.translate.incremental.view import View
    from varnish_gateway.translate.options import Options

KIND = api.BackendTLSPolicy.kind
UNSUPPORTED = Problem(
    "Invalid",
    "TLS to backends is not supported yet: requests for the policy's targets are answered with 500 and never sent as "
    "plain HTTP",
)


class TlsRequired(Problem, frozen=True):
    """Why a backend can't be used: a policy requires TLS. ``target`` is the policy's, for its status."""

    target: Key


class ValidatedPolicy(Struct, frozen=True):
    """``targets`` are Services, or ports of one: see ``target_of``."""

    generation: int
    created: int
    targets: tuple[Key, ...]


def target_of(namespace: str, service: str, port_name: str = "") -> Key:
    """Return the key of a policy's target: a port of a Service, or without a port all of them."""
    return Key(api.Service.kind, namespace, f"{service}/{port_name}")


def required(namespace: str, service: str, port: int | None, port_name: str, view: View) -> TlsRequired | None:
    """Return a problem where a policy requires TLS to a port. A policy of the port counts before one of the Service."""
    for target in dict.fromkeys((target_of(namespace, service, port_name), target_of(namespace, service))):
        if (holder := attachment.holder(KIND, target, view)) is not None:
            message = (
                f"{holder} requires TLS to port {port} of Service "
                f"{namespace}/{service}, which is not supported yet; its requests are answered with 500"
            )
            return TlsRequired("UnsupportedProtocol", message, target)
    return None


def validate(key: Key, _: Options, view: View) -> ValidatedPolicy | None:
    """Return a policy by itself; None where it targets no Service."""
    policy = view.find(api.BackendTLSPolicy, key.namespace, key.name)
    if policy is None:
        return None
    refs = [ref for ref in policy.spec.target_refs if (ref.group, ref.kind) == ("", api.Service.kind)]
    targets = tuple(target_of(key.namespace, ref.name, ref.section_name) for ref in refs)
    return ValidatedPolicy(policy.metadata.generation, policy.created, targets) if targets else None


def claims_of(key: Key, policy: ValidatedPolicy) -> dict[Derived, Claim]:
    """Return what a policy claims: its targets."""
    return attachment.claims_of(key, policy.created, policy.targets)


def resolve(key: Key, options: Options, view: View) -> ir.PolicyStatus | None:
    """Return the status of a policy; None where no Gateway of ours uses one of its targets."""
    policy = view.get(VALIDATED, key)
    if policy is None:
        return None
    ancestors = sorted({gateway for target in policy.targets for gateway in view.tally(target)})
    if not ancestors:
        return None
    problem = _conflict(key, policy, view) or UNSUPPORTED
    refs = [attachment.ancestor(_gateway(name)) for name in ancestors]
    return attachment.status(refs, [problem] * len(refs), (), policy.generation, options.controller)


def _conflict(key: Key, policy: ValidatedPolicy, view: View) -> Problem | None:
    """Return a problem where older policies have all of the policy's targets."""
    winners = list(_winners(policy, view))
    if key in winners:
        return None
    names = ", ".join(f"{one.namespace}/{one.name}" for one in dict.fromkeys(winners))
    return Problem("Conflicted", f"an older BackendTLSPolicy has the same target: {names}; remove one of them")


def _winners(policy: ValidatedPolicy, view: View) -> Iterator[Key]:
    return (found for target in policy.targets if (found := attachment.holder(KIND, target, view)) is not None)


def _gateway(full_name: str) -> Key:
    namespace, _, name = full_name.partition("/")
    return Key(api.Gateway.kind, namespace, name)


VALIDATED: Table[ValidatedPolicy] = Table("validated BackendTLSPolicy")
VALIDATE = Layer(table=VALIDATED, kinds=(KIND,), compute=validate, claims=claims_of)
STATUSES: Table[ir.PolicyStatus] = Table("status of a BackendTLSPolicy")
RESOLVE = Layer(table=STATUSES, kinds=(KIND,), compute=resolve, status=lambda status: status)
