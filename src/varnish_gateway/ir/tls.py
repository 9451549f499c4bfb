"""The certificates and authorities of TLS termination."""

from collections.abc import Mapping

from msgspec import Struct

from varnish_gateway.api import Key
from varnish_gateway.ir import wire


class Tls(Struct, frozen=True):
    """The ports of a Gateway with TLS, and the files that they name: certificates with keys, authorities.

    ``sources`` are the Secrets that the certificates come from, by file.
    """

    ports: tuple[wire.TlsPort, ...] = ()
    files: Mapping[str, bytes] = {}
    sources: Mapping[str, tuple[Key, ...]] = {}

    def __repr__(self) -> str:
        return f"Tls({self.ports}, {', '.join(self.files)})"  # never what is in the files
