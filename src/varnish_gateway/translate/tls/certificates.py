"""Resolve a listener's certificateRefs.

In:   the tls of a listener, who owns the listener (a Gateway or another object with listeners),
      and the view.
Out:  Certified: the files of the certificates that can be served, and what is wrong with the others.
Nothing about another namespace is told without a grant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from varnish_gateway import api
from varnish_gateway.api import Key
from varnish_gateway.api.core import TLS_TYPE
from varnish_gateway.translate.conditions import Problem
from varnish_gateway.translate.grants import Owner, granted
from varnish_gateway.translate.tls import pem

if TYPE_CHECKING:
    from varnish_gateway.api.gateway_networking import ListenerTls, ObjectReference
    from varnish_gateway.translate.incremental.view import View


class Certified(Struct, frozen=True):
    files: tuple[pem.File, ...] = ()
    problems: tuple[Problem, ...] = ()


def resolve(tls: ListenerTls | None, owner: Owner, view: View) -> Certified:
    """Return the certificates of a listener."""
    refs = tls.certificate_refs if tls else ()
    if not refs:
        return Certified(problems=(_invalid("tls.certificateRefs names no certificate; name a Secret"),))
    found = [_resolve(ref, owner, view) for ref in refs]
    return Certified(
        tuple(dict.fromkeys(one for one in found if isinstance(one, pem.File))),
        tuple(one for one in found if isinstance(one, Problem)),
    )


def not_permitted(owner: Owner, target: Key) -> Problem:
    """Return what is said where a grant is missing."""
    allowed = f"{owner.kind}s of {owner.namespace} use {target.kind} {target.name}"
    return Problem("RefNotPermitted", f"no ReferenceGrant in namespace {target.namespace} lets {allowed}")


def _resolve(ref: ObjectReference, owner: Owner, view: View) -> pem.File | Problem:
    if (ref.group, ref.kind) != ("", api.Secret.kind):
        return _invalid(f"certificateRef {ref.name}: {ref.group or 'core'}/{ref.kind} is not supported; use a Secret")
    target = Key(api.Secret.kind, ref.namespace or owner.namespace, ref.name)
    if target.namespace != owner.namespace and not granted(owner, target, view):
        return not_permitted(owner, target)
    judged = view.judged(api.Secret, target.namespace, target.name, _judge)
    if judged is None:
        return _invalid(f"{target} of the type {TLS_TYPE} does not exist")
    return judged if isinstance(judged, pem.File) else _invalid(f"{target}: {judged}")


def _judge(secret: api.Secret) -> pem.File | str:
    if secret.type != TLS_TYPE:
        return f"its type is {secret.type}, not {TLS_TYPE}"
    chain, key = secret.value("tls.crt"), secret.value("tls.key")
    if not chain or not key:
        return f"it has no {'tls.key' if chain else 'tls.crt'}"
    return pem.certificate(chain, key)


def _invalid(message: str) -> Problem:
    return Problem("InvalidCertificateRef", message)
