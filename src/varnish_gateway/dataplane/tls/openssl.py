"""Have the OpenSSL of this machine load certificates: the TLS terminator uses the same library.

In:   PEM whose framing was checked (``translate/tls/blocks.py`` says which check applies where).
Out:  nothing, or BadDocument with OpenSSL's reason.
"""

import ssl
from pathlib import Path

from varnish_gateway import errors


def check_pair(path: Path) -> None:
    """Raise BadDocument if OpenSSL rejects a certificate with its key. It reads them from files only."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(path, password=b"")
    except (ssl.SSLError, ValueError) as error:
        raise errors.BadDocument(f"is rejected by OpenSSL: {_reason(error)}") from None


def check_authorities(content: bytes) -> None:
    """Raise BadDocument if OpenSSL rejects the certificates of authorities."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cadata=content.decode())
    except ssl.SSLError as error:
        raise errors.BadDocument(f"has a certificate that can't be used: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    """Return OpenSSL's reason in words, without the places in its source."""
    name = getattr(error, "reason", None)
    return str(name).replace("_", " ").lower() if name else str(error)
