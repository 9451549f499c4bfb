"""tls.json: which certificates end TLS on which port.

In:   the TLS of a Gateway.
Out:  the document that lies beside the files that it names.
Pure.
"""

import msgspec

from varnish_gateway.ir import Tls, wire


def encode_tls(tls: Tls) -> bytes:
    """Return tls.json."""
    return msgspec.json.encode(wire.Tls(version=2, ports=tls.ports))
