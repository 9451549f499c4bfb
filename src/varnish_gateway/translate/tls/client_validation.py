"""Resolve the validation of client certificates: spec.tls.frontend of a Gateway.

In:   the validation that holds for a port, the Gateway as the referrer, the view.
Out:  ClientAuthorities: the authorities, and what is wrong with the references. Without a valid authority
      there is no file, and the port is not served: it must not be open without validation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from varnish_gateway import api
from varnish_gateway.api import Key
from varnish_gateway.translate.conditions import Problem, joined
from varnish_gateway.translate.grants import Referrer, not_permitted
from varnish_gateway.translate.listener import NO_AUTHORITY
from varnish_gateway.translate.tls import pem
from varnish_gateway.translate.tls.blocks import AUTHORITY_BYTES

if TYPE_CHECKING:
    from varnish_gateway.api.gateway_networking import Frontend, FrontendValidation, ObjectReference
    from varnish_gateway.translate.incremental.view import View

INSECURE = "AllowInsecureFallback"
KEY = "ca.crt"


class ClientAuthorities(Struct, frozen=True):
    """``insecure``: every client is accepted, with any certificate or none."""

    file: pem.File | None
    insecure: bool
    problems: tuple[Problem, ...] = ()

    @property
    def rejected(self) -> Problem | None:
        """Why no listener of the port can be accepted."""
        return None if self.file else Problem(NO_AUTHORITY, joined(self.problems))


def resolve(validation: FrontendValidation | None, referrer: Referrer, view: View) -> ClientAuthorities | None:
    """Return how clients are validated; None where they are not."""
    if validation is None:
        return None
    found = [_resolve(ref, referrer, view) for ref in validation.ca_certificate_refs]
    problems = [one for one in found if isinstance(one, Problem)]
    text = b"".join(dict.fromkeys(one for one in found if isinstance(one, bytes)))
    if not found:
        problems.append(_invalid("tls.frontend: caCertificateRefs names no authority; name a ConfigMap"))
    if len(text) > AUTHORITY_BYTES:
        problems.append(_invalid(f"caCertificateRefs have {len(text):,} bytes; the limit is {AUTHORITY_BYTES:,}"))
        text = b""
    file = pem.named(text, ".ca.pem") if text else None
    return ClientAuthorities(file, validation.mode == INSECURE, tuple(problems))


def is_insecure(frontend: Frontend) -> bool:
    """Return whether some port accepts clients that fail validation."""
    asked = (frontend.default, *(one.tls for one in frontend.per_port))
    return any(tls.validation is not None and tls.validation.mode == INSECURE for tls in asked)


def _resolve(ref: ObjectReference, referrer: Referrer, view: View) -> bytes | Problem:
    if (ref.group, ref.kind) != ("", api.ConfigMap.kind):
        kind = f"{ref.group or 'core'}/{ref.kind}"
        message = f"caCertificateRef {ref.name}: {kind} is not supported; use a ConfigMap"
        return Problem("InvalidCACertificateKind", message)
    target = Key(api.ConfigMap.kind, ref.namespace or referrer.namespace, ref.name)
    if (problem := not_permitted(referrer, target, view)) is not None:
        return problem
    validated = view.validated(api.ConfigMap, target.namespace, target.name, _validate)
    if validated is None:
        return _invalid(f"{target} does not exist")
    return validated if isinstance(validated, bytes) else _invalid(f"{target}: {validated}")


def _validate(config_map: api.ConfigMap) -> bytes | str:
    text = config_map.data.get(KEY)
    return f"it has no key {KEY}" if text is None else pem.authorities(text)


def _invalid(message: str) -> Problem:
    return Problem("InvalidCACertificateRef", message)
