"""The certificates that a Gateway serves: an input of translation, beside the Secrets that they come from.

In:   ir.Tls as it was published, or the Gateway's own Secret.
Out:  ServedCertificates, an object like any other. A certificateRef that is permitted, but whose Secret is invalid
      or missing, resolves to the certificate that the Gateway serves for it.

Translation itself remembers nothing: the same objects give the same result. In a cluster the memory is the
Gateway's own Secret, so that it survives a restart of the operator. On one machine the engine has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from msgspec import field

from varnish_gateway.api import Key, Object
from varnish_gateway.api.meta import Metadata

if TYPE_CHECKING:
    from collections.abc import Mapping

    from varnish_gateway import ir


class ServedCertificates(Object, frozen=True):
    """Of the Gateway with this name: certificates with their keys, by the Secret that each comes from."""

    kind: ClassVar[str] = "ServedCertificates"
    contents: Mapping[Key, bytes] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"ServedCertificates({', '.join(map(str, self.contents))})"  # never their keys


def served_key(gateway: Key) -> Key:
    return Key(ServedCertificates.kind, gateway.namespace, gateway.name)


def _served(gateway: Key, tls: ir.Tls) -> ServedCertificates:
    """Return what a Gateway with this TLS serves."""
    contents = {source: tls.files[name] for name, sources in tls.sources.items() for source in sources}
    return of_gateway(gateway, contents)


def served_after(delta: ir.Delta) -> dict[Key, ServedCertificates | None]:
    """Return what has to be known to the next translation, after one that published this."""
    return {
        served_key(key): _served(key, changed.tls) if changed and changed.tls else None
        for key, changed in delta.gateways.items()
        if changed is None or changed.tls is not None
    }


def of_gateway(gateway: Key, contents: Mapping[Key, bytes]) -> ServedCertificates:
    return ServedCertificates(metadata=Metadata(name=gateway.name, namespace=gateway.namespace), contents=contents)
