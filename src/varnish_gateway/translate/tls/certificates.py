"""Resolve a listener's certificateRefs.

In:   the tls of a listener, the referrer (the Gateway or ListenerSet with the listener), and the view.
Out:  Certified: the files of the certificates that can be served, and what is wrong with the others.
Without a grant, no message reveals anything about another namespace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from varnish_gateway import api
from varnish_gateway.api import Key
from varnish_gateway.api.core import TLS_TYPE
from varnish_gateway.translate.conditions import Problem
from varnish_gateway.translate.grants import Referrer, not_permitted
from varnish_gateway.translate.tls import pem

if TYPE_CHECKING:
    from varnish_gateway.api.gateway_networking import ListenerTls, ObjectReference
    from varnish_gateway.translate.incremental.view import View


class Certified(Struct, frozen=True):
    files: tuple[pem.File, ...] = ()
    problems: tuple[Problem, ...] = ()


def resolve(tls: ListenerTls | None, referrer: Referrer, view: View) -> Certified:
    """Return the certificates of a listener."""
    refs = tls.certificate_refs if tls else ()
    if not refs:
        return Certified(problems=(_invalid("tls.certificateRefs names no certificate; name a Secret"),))
    found = [_resolve(ref, referrer, view) for ref in refs]
    return Certified(
        tuple(dict.fromkeys(one for one in found if isinstance(one, pem.File))),
        tuple(one for one in found if isinstance(one, Problem)),
    )


def _resolve(ref: ObjectReference, referrer: Referrer, view: View) -> pem.File | Problem:
    if (ref.group, ref.kind) != ("", api.Secret.kind):
        return _invalid(f"certificateRef {ref.name}: {ref.group or 'core'}/{ref.kind} is not supported; use a Secret")
    target = Key(api.Secret.kind, ref.namespace or referrer.namespace, ref.name)
    if (problem := not_permitted(referrer, target, view)) is not None:
        return problem
    validated = view.validated(api.Secret, target.namespace, target.name, _validate)
    if validated is None:
        return _invalid(f"{target} of the type {TLS_TYPE} does not exist")
    return validated if isinstance(validated, pem.File) else _invalid(f"{target}: {validated}")


def _validate(secret: api.Secret) -> pem.File | str:
    if secret.type != TLS_TYPE:
        return f"its type is {secret.type}, not {TLS_TYPE}"
    chain, key = secret.value("tls.crt"), secret.value("tls.key")
    if not chain or not key:
        return f"it has no {'tls.key' if chain else 'tls.crt'}"
    return pem.certificate(chain, key)


def _invalid(message: str) -> Problem:
    return Problem("InvalidCertificateRef", message)
