"""Validate certificates, keys and authorities in PEM.

In:   the content of a user's Secret or ConfigMap.
Out:  File: the content in the form that is served, or a message that describes the fault and quotes
      none of the content.
Pure, and without a clock: an expired certificate is served, and clients reject it.

The result is an ordered chain: the certificate of the key first, then its issuers. Self-signed roots
and certificates outside the chain are omitted. Validation rejects what OpenSSL would not load at its
default security level, because the message of a condition reaches the user. ``blocks.py`` lists the
checks that follow in the data plane.
"""

from __future__ import annotations

import re
import warnings
from hashlib import sha256
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import PublicKeyAlgorithmOID
from msgspec import Struct

from varnish_gateway.api import Key as ObjectKey
from varnish_gateway.translate.tls.blocks import AUTHORITY_BYTES, BEGIN, CERTIFICATE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MOST_CERTIFICATES = 20
"""The search for a chain considers at most this many."""
MOST_HOSTS = 100
RSA_BITS = range(2048, 8193)
CURVES = ("secp256r1", "secp384r1", "secp521r1")
WEAK_HASHES = ("md5", "sha1")
FEWEST_CURVE_BITS = 224
PRIVATE = b"-----BEGIN PRIVATE KEY-----"
_HOST = re.compile(r"(?=.{1,253}$)(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_FAULTS = (Exception,)
"""The errors that parsing untrusted bytes raises, such as InvalidVersion and InternalError, share no other base."""

Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey


class File(Struct, frozen=True):
    """A file that is named after its content. ``hosts`` are the host names in a certificate.

    ``source`` is the Secret that a certificate comes from.
    """

    name: str
    text: bytes
    hosts: tuple[str, ...] = ()
    source: ObjectKey | None = None

    def __repr__(self) -> str:
        return f"File({self.name})"


def certificate(chain: bytes, key: bytes) -> File | str:
    """Return a certificate with its chain and its key, or why it can't be served."""
    if len(chain) + len(key) > CERTIFICATE_BYTES:
        return f"tls.crt and tls.key have {len(chain) + len(key):,} bytes; the limit is {CERTIFICATE_BYTES:,}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # cryptography warns about old certificates; the checks below decide
        found = _certificates(chain)
        if not found:
            return "tls.crt holds no certificate in PEM, or a damaged one"
        if len(found) > MOST_CERTIFICATES:
            return f"tls.crt holds {len(found)} certificates; the limit is {MOST_CERTIFICATES}"
        private = _key(key)
        return private if isinstance(private, str) else _joined(found, private)


def stored(text: bytes) -> File | str:
    """Return a certificate from the form in which it is served, or why it can't be served any more."""
    chain, begin, key = text.partition(PRIVATE)
    return certificate(chain, begin + key)


def authorities(text: str) -> bytes | str:
    """Return the certificates of authorities, or why they can't be used."""
    if len(text) > AUTHORITY_BYTES:
        return f"ca.crt has {len(text):,} bytes; the limit is {AUTHORITY_BYTES:,}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = _certificates(text.encode())
        return _pem(dict.fromkeys(found)) if found else "ca.crt holds no certificate in PEM, or a damaged one"


def named(text: bytes, suffix: str, hosts: tuple[str, ...] = ()) -> File:
    """Return a file that is named after its content."""
    return File(f"{sha256(text).hexdigest()[:16]}{suffix}", text, hosts)


def _joined(found: Sequence[x509.Certificate], key: Key) -> File | str:
    try:
        public = _public(key.public_key())
        leaf = next((one for one in found if _public(one.public_key()) == public), None)
        if leaf is None:
            return "tls.key is the key of no certificate in tls.crt"
        chain = _chain(leaf, found)
        if (weak := next(filter(None, map(_weakness, chain)), None)) is not None:
            return weak
        _try(key)
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    except _FAULTS:
        return "tls.crt or tls.key is damaged, or of a kind that is not supported"
    return named(_pem(chain) + private, ".pem", _hosts(leaf))


def _certificates(text: bytes) -> list[x509.Certificate]:
    """Return all certificates or none: the parser silently skips one that is cut off."""
    try:
        found = x509.load_pem_x509_certificates(text)
    except _FAULTS:
        return []
    return found if len(found) >= text.count(BEGIN) else []


def _key(text: bytes) -> Key | str:
    """Return the key. ``_try`` checks it later, which costs less than validation while loading."""
    if b"ENCRYPTED" in text:
        return "tls.key is encrypted; store it without a passphrase"
    try:
        key = serialization.load_pem_private_key(text, None, unsafe_skip_rsa_key_validation=True)
    except _FAULTS:
        return "tls.key holds no private key in PEM"
    if not isinstance(key, Key):
        return "tls.key is of a kind that is not supported; use RSA, ECDSA or Ed25519"
    if isinstance(key, rsa.RSAPrivateKey) and key.key_size not in RSA_BITS:
        return f"tls.key is an RSA key of {key.key_size} bits; use {RSA_BITS[0]} to {RSA_BITS[-1]}"
    if isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.name not in CURVES:
        return f"tls.key is on the curve {key.curve.name}; use P-256, P-384 or P-521"
    return key


def _chain(leaf: x509.Certificate, found: Sequence[x509.Certificate]) -> list[x509.Certificate]:
    """Return the leaf and its issuers, without the root."""
    # An authority may occur twice: signed by another one, and self-signed.
    left = sorted((one for one in dict.fromkeys(found) if one != leaf), key=_is_self_signed)
    chain = [leaf]
    while not _is_self_signed(chain[-1]):
        issuer = next((one for one in left if _has_issued(one, chain[-1])), None)
        if issuer is None or _is_self_signed(issuer):
            break
        left.remove(issuer)
        chain.append(issuer)
    return chain


def _is_self_signed(one: x509.Certificate) -> bool:
    return one.issuer == one.subject


def _has_issued(issuer: x509.Certificate, issued: x509.Certificate) -> bool:
    try:
        issued.verify_directly_issued_by(issuer)
    except _FAULTS:
        return False
    return True


def _hosts(leaf: x509.Certificate) -> tuple[str, ...]:
    """Return the host names in a certificate that are valid for a listener."""
    try:
        found = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = [name.lower() for name in found.get_values_for_type(x509.DNSName)]
    except _FAULTS:
        return ()
    return tuple(dict.fromkeys(name for name in names if _HOST.fullmatch(name)))[:MOST_HOSTS]


def _weakness(one: x509.Certificate) -> str | None:
    """Return why OpenSSL would not load a certificate, if so. A weak self-signature is harmless: it proves nothing."""
    _ = one.extensions  # raises if one of them is damaged, as OpenSSL does
    signed = one.signature_hash_algorithm
    if signed is not None and signed.name in WEAK_HASHES and not _is_self_signed(one):
        return f"a certificate in tls.crt is signed with {signed.name.upper()}; have it reissued with SHA-256"
    key = one.public_key()
    if one.public_key_algorithm_oid == PublicKeyAlgorithmOID.RSASSA_PSS:
        return "a certificate in tls.crt has a key for RSA-PSS alone; use a plain RSA key"
    if isinstance(key, rsa.RSAPublicKey) and key.key_size < RSA_BITS[0]:
        return f"a certificate in tls.crt has an RSA key of {key.key_size} bits; {RSA_BITS[0]} are needed"
    if isinstance(key, ec.EllipticCurvePublicKey) and key.key_size < FEWEST_CURVE_BITS:
        return f"a certificate in tls.crt has a key of {key.key_size} bits; use P-256 or more"
    return None


def _try(key: Key) -> None:
    """Sign and verify a text: a damaged key raises an error."""
    text = b"Varnish Gateway"
    if isinstance(key, rsa.RSAPrivateKey):
        signature = key.sign(text, padding.PKCS1v15(), hashes.SHA256())
        key.public_key().verify(signature, text, padding.PKCS1v15(), hashes.SHA256())
    elif isinstance(key, ec.EllipticCurvePrivateKey):
        algorithm = ec.ECDSA(hashes.SHA256())
        key.public_key().verify(key.sign(text, algorithm), text, algorithm)
    else:
        key.public_key().verify(key.sign(text), text)


def _public(key: object) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)  # type: ignore[attr-defined, no-any-return]


def _pem(found: Iterable[x509.Certificate]) -> bytes:
    return b"".join(one.public_bytes(Encoding.PEM) for one in found)
