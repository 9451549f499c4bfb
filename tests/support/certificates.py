"""Certificates for tests, made when they are needed.

In:   names.
Out:  authorities and what they issue. The same name gives the same bytes (keys derive
      from names, Ed25519 signatures are deterministic), so that golden files can contain them.
"""

from base64 import b64encode
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

BEGIN, END = datetime(2020, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
Key = Any


class Issued(NamedTuple):
    """A certificate, its key, and the certificates above it."""

    certificate: x509.Certificate
    key: Key
    above: tuple[x509.Certificate, ...] = ()

    @property
    def crt(self) -> bytes:
        """The chain without the root, as an issuer hands it out."""
        return pem(self.certificate, *self.above[:-1])

    @property
    def own(self) -> bytes:
        """The certificate alone."""
        return pem(self.certificate)

    @property
    def private(self) -> bytes:
        return private_pem(self.key)

    def secret(self, namespace: str, name: str) -> dict[str, Any]:
        return secret(namespace, name, self.crt, self.private)

    def issue(self, name: str, **more: Any) -> "Issued":
        """Issue a certificate; ``more`` are the arguments of ``issued``."""
        return issued(name, by=self, **more)


def authority(name: str, **more: Any) -> Issued:
    """Return an authority that signed itself."""
    return issued(name, is_authority=True, **more)


def issued(
    name: str,
    *,
    by: Issued | None = None,
    key: Key | None = None,
    is_authority: bool = False,
    hosts: Sequence[str] = (),
    until: datetime = END,
    padding: int = 0,
) -> Issued:
    """Return a certificate for a host name. ``padding`` makes it longer by so many bytes."""
    key = key or key_named(name)
    signing = by.key if by else key
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(by.certificate.subject if by else _name(name))
        .public_key(key.public_key())
        .serial_number(int.from_bytes(sha256(f"{name} {by and by.certificate.serial_number}".encode()).digest()[:8]))
        .not_valid_before(BEGIN)
        .not_valid_after(until)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts or (name,)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )
    if padding:
        filler = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.3.6.1.4.1.99999.1"), b"x" * padding)
        builder = builder.add_extension(filler, critical=False)
    plain = isinstance(signing, ed25519.Ed25519PrivateKey)
    made = builder.sign(signing, None if plain else hashes.SHA256())
    return Issued(made, key, (by.certificate, *by.above) if by else ())


def key_named(name: str) -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.from_private_bytes(sha256(name.encode()).digest())


@cache
def rsa_key(bits: int = 2048, turn: int = 0) -> rsa.RSAPrivateKey:  # noqa: ARG001 - another turn, another key
    return rsa.generate_private_key(65537, bits)


def curve_key(curve: ec.EllipticCurve | None = None) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(curve or ec.SECP256R1())


def pem(*certificates: x509.Certificate) -> bytes:
    return b"".join(one.public_bytes(Encoding.PEM) for one in certificates)


def private_pem(key: Key, form: PrivateFormat = PrivateFormat.PKCS8, encryption: Any = None) -> bytes:
    return bytes(key.private_bytes(Encoding.PEM, form, encryption or NoEncryption()))


def secret(namespace: str, name: str, crt: bytes, private: bytes) -> dict[str, Any]:
    data = {"tls.crt": b64encode(crt).decode(), "tls.key": b64encode(private).decode()}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/tls", "data": data}


def config_map(namespace: str, name: str, *authorities: Issued) -> dict[str, Any]:
    """Return authorities as a Gateway refers to them."""
    data = {"ca.crt": pem(*(one.certificate for one in authorities)).decode()}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
