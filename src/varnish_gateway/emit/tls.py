"""tls.json: which certificates end TLS on which port.

In:   the TLS of a Gateway.
Out:  the document that lies beside the files that it names.
Pure.
"""

import msgspec

from varnish_gateway.emit.routing import content_hash
from varnish_gateway.ir import Tls, wire


def encode_tls(tls: Tls) -> bytes:
    """Return tls.json."""
    return msgspec.json.encode(wire.TlsDocument(version=2, ports=tls.ports))


def tls_hash(tls: Tls) -> str:
    """Return the hash by which pods report the certificates that they serve."""
    return content_hash(encode_tls(tls))


NO_TLS = tls_hash(Tls())
