"""Resolve a listener's certificateRefs.

In:   the tls of a listener, the referrer (the Gateway or ListenerSet with the listener), the Gateway, and the view.
Out:  Certified: the files of the certificates that can be served, and what is wrong with the others.
Without a grant, no message reveals anything about another namespace.

A Secret that became invalid, or was deleted, is a mistake until the user says otherwise: the certificate that the
Gateway serves for it stays, beside the problem. It goes with its listener, its reference or its ReferenceGrant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, structs

from varnish_gateway import api
from varnish_gateway.api import Key, key_of
from varnish_gateway.api.core import TLS_TYPE
from varnish_gateway.translate.conditions import Problem
from varnish_gateway.translate.grants import Referrer, not_permitted
from varnish_gateway.translate.tls import pem
from varnish_gateway.translate.tls.served import ServedCertificates

if TYPE_CHECKING:
    from varnish_gateway.api.gateway_networking import ListenerTls, ObjectReference
    from varnish_gateway.translate.incremental.view import View


class Certified(Struct, frozen=True):
    files: tuple[pem.File, ...] = ()
    problems: tuple[Problem, ...] = ()


def resolve(tls: ListenerTls | None, referrer: Referrer, gateway: Key, view: View) -> Certified:
    """Return the certificates of a listener."""
    refs = tls.certificate_refs if tls else ()
    if not refs:
        return Certified(problems=(_invalid("tls.certificateRefs names no certificate; name a Secret"),))
    found = [_resolve(ref, referrer, gateway, view) for ref in refs]
    return Certified(
        tuple(dict.fromkeys(one.file for one in found if one.file is not None)),
        tuple(one.problem for one in found if one.problem is not None),
    )


class _Resolved(Struct, frozen=True):
    """One certificateRef. With both, the file is the last valid one."""

    file: pem.File | None = None
    problem: Problem | None = None


def _resolve(ref: ObjectReference, referrer: Referrer, gateway: Key, view: View) -> _Resolved:
    if (ref.group, ref.kind) != ("", api.Secret.kind):
        kind = f"{ref.group or 'core'}/{ref.kind}"
        return _Resolved(problem=_invalid(f"certificateRef {ref.name}: {kind} is not supported; use a Secret"))
    target = Key(api.Secret.kind, ref.namespace or referrer.namespace, ref.name)
    if (problem := not_permitted(referrer, target, view)) is not None:
        return _Resolved(problem=problem)
    validated = view.validated(api.Secret, target.namespace, target.name, _validate)
    if isinstance(validated, pem.File):
        return _Resolved(validated)
    fault = f"{target}: {validated}" if validated else f"{target} of the type {TLS_TYPE} does not exist"
    if (last_valid := _served(target, gateway, view)) is None:
        return _Resolved(problem=_invalid(fault))
    return _Resolved(last_valid, _invalid(f"{fault}; the last valid certificate keeps serving"))


def _served(source: Key, gateway: Key, view: View) -> pem.File | None:
    """Return the certificate that the Gateway serves for a Secret."""
    found = view.find(ServedCertificates, gateway.namespace, gateway.name)
    content = found.contents.get(source) if found else None
    file = pem.stored(content) if content else None
    return structs.replace(file, source=source) if isinstance(file, pem.File) else None


def _validate(secret: api.Secret) -> pem.File | str:
    if secret.type != TLS_TYPE:
        return f"its type is {secret.type}, not {TLS_TYPE}"
    chain, key = secret.value("tls.crt"), secret.value("tls.key")
    if not chain or not key:
        return f"it has no {'tls.key' if chain else 'tls.crt'}"
    file = pem.certificate(chain, key)
    return structs.replace(file, source=key_of(secret)) if isinstance(file, pem.File) else file


def _invalid(message: str) -> Problem:
    return Problem("InvalidCertificateRef", message)
