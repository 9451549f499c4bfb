"""The files with which listeners terminate TLS.

They are kept apart from the listeners: routes depend on those, and a rotated certificate must
recompute no route.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Iterable

    from varnish_gateway.translate.tls.client_validation import ClientAuthorities
    from varnish_gateway.translate.tls.pem import File


class Material(Struct, frozen=True):
    certificates: dict[str, tuple[File, ...]] = field(default_factory=dict)  # by id of the listener
    clients: dict[int, ClientAuthorities] = field(default_factory=dict)  # by port


def merged(parts: Iterable[Material]) -> Material:
    """Return the material of several Gateways and ListenerSets as one."""
    certificates, clients = {}, {}
    for part in parts:
        certificates.update(part.certificates)
        clients.update(part.clients)
    return Material(certificates, clients)
