"""PEM as HAProxy gets it.

In:   what somebody stored as a certificate with its key, or as authorities.
Out:  its blocks and nothing else. The admin socket takes content up to the first empty line and
commands after it, so that anything beside the blocks is left out rather than passed on.
"""

import re
import ssl
from pathlib import Path

from varnish_gateway import errors

MOST_BYTES = 256_000
"""More than any chain or bundle has that a client would want to receive."""

_KEYS = (b"PRIVATE KEY", b"RSA PRIVATE KEY", b"EC PRIVATE KEY")
_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]{1,40})-----([A-Za-z0-9+/=\s]+)-----END \1-----")


def clean_pair(content: bytes) -> bytes:
    """Return a certificate's chain and its key; raise BadDocument if there is not one of each."""
    blocks = _blocks(content)
    keys = [block for block in blocks if block[0] in _KEYS]
    chain = [block for block in blocks if block[0] == b"CERTIFICATE"]
    if not chain:
        raise errors.BadDocument("has no certificate in PEM")
    if len(keys) != 1:
        raise errors.BadDocument(f"has {len(keys)} private keys in PEM that are not encrypted; exactly one is needed")
    return _joined([*chain, *keys])


def clean_authorities(content: bytes) -> bytes:
    """Return the certificates of authorities; raise BadDocument if there is none, or one can't be used."""
    blocks = [block for block in _blocks(content) if block[0] == b"CERTIFICATE"]
    if not blocks:
        raise errors.BadDocument("has no certificate in PEM")
    cleaned = _joined(blocks)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cadata=cleaned.decode())
    except ssl.SSLError as error:
        raise errors.BadDocument(f"has a certificate that can't be used: {_reason(error)}") from None
    return cleaned


def check_pair(path: Path) -> None:
    """Raise BadDocument if OpenSSL, which HAProxy uses, too, does not take the certificate with its key."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(path, password=b"")
    except (ssl.SSLError, ValueError) as error:
        raise errors.BadDocument(f"is refused by OpenSSL: {_reason(error)}") from None


def _blocks(content: bytes) -> list[tuple[bytes, bytes]]:
    if len(content) > MOST_BYTES:
        raise errors.BadDocument(f"has {len(content)} bytes; {MOST_BYTES} are the most")
    return [(block[1], b"".join(block[2].split())) for block in _BLOCK.finditer(content)]


def _joined(blocks: list[tuple[bytes, bytes]]) -> bytes:
    return b"".join(b"-----BEGIN %s-----\n%s\n-----END %s-----\n" % (kind, _lines(text), kind) for kind, text in blocks)


def _lines(text: bytes) -> bytes:
    return b"\n".join(text[start : start + 64] for start in range(0, len(text), 64))


def _reason(error: Exception) -> str:
    """Return OpenSSL's reason in words, without the places in its source."""
    name = getattr(error, "reason", None)
    return str(name).replace("_", " ").lower() if name else str(error)
