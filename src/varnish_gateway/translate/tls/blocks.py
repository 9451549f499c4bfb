"""PEM blocks: the framing rules for everything that is served with TLS.

In:   bytes with PEM in them.
Out:  their blocks, re-wrapped and without anything beside them, or BadDocument.
Pure.

A certificate or an authority passes these checks, in this order:

1. the translator, ``pem.py``: sizes, order of the chain, key kinds and strength. Its verdict becomes a
   condition of the listener. Files of a directory (TLS_CERT_DIR) skip this step: no translator reads them.
2. the data plane, this module: exactly one readable key, at least one certificate, nothing beside the
   blocks. The TLS terminator's admin socket takes content up to the first empty line and commands
   after it, so that text beside the blocks would become commands.
3. the data plane, ``dataplane/tls/openssl.py``: the OpenSSL of this machine loads the result.

The limits of steps 1 and 2 are here, side by side.
"""

import re

from varnish_gateway import errors

CERTIFICATE_BYTES = 64_000
"""The most that a translator accepts for a certificate with its chain and its key."""
AUTHORITY_BYTES = 256_000
"""The most that a translator accepts for a bundle of authorities."""
FILE_BYTES = max(CERTIFICATE_BYTES, AUTHORITY_BYTES)
"""The most that the data plane accepts for any file. No chain or bundle that a client wants is larger."""
BEGIN = b"-----BEGIN CERTIFICATE-----"

_CERTIFICATE = b"CERTIFICATE"
_KEYS = (b"PRIVATE KEY", b"RSA PRIVATE KEY", b"EC PRIVATE KEY")
_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]{1,40})-----([A-Za-z0-9+/=\s]+)-----END \1-----")


def clean_pair(content: bytes) -> bytes:
    """Return a certificate's chain and its key; raise BadDocument if there is not one of each."""
    blocks = _blocks(content)
    keys = [block for block in blocks if block[0] in _KEYS]
    chain = [block for block in blocks if block[0] == _CERTIFICATE]
    if not chain:
        raise errors.BadDocument("has no certificate in PEM")
    if len(keys) != 1:
        raise errors.BadDocument(f"has {len(keys)} private keys in PEM that are not encrypted; exactly one is needed")
    return _joined([*chain, *keys])


def clean_authorities(content: bytes) -> bytes:
    """Return the certificates of authorities; raise BadDocument if there is none."""
    blocks = [block for block in _blocks(content) if block[0] == _CERTIFICATE]
    if not blocks:
        raise errors.BadDocument("has no certificate in PEM")
    return _joined(blocks)


def _blocks(content: bytes) -> list[tuple[bytes, bytes]]:
    if len(content) > FILE_BYTES:
        raise errors.BadDocument(f"has {len(content)} bytes; {FILE_BYTES} are the most")
    return [(block[1], b"".join(block[2].split())) for block in _BLOCK.finditer(content)]


def _joined(blocks: list[tuple[bytes, bytes]]) -> bytes:
    return b"".join(b"-----BEGIN %s-----\n%s\n-----END %s-----\n" % (kind, _lines(text), kind) for kind, text in blocks)


def _lines(text: bytes) -> bytes:
    return b"\n".join(text[start : start + 64] for start in range(0, len(text), 64))
