"""Validation of certificates and keys. No message reveals anything of a key."""

import datetime as dt
import ssl
from base64 import b64encode
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, rsa, x25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from hypothesis import given
from hypothesis import strategies as st

from support.certificates import Issued, authority, curve_key, issued, pem, private_pem, rsa_key
from varnish_gateway.translate.tls.blocks import AUTHORITY_BYTES, CERTIFICATE_BYTES
from varnish_gateway.translate.tls.pem import File, authorities, certificate, named

ROOT = authority("root")
MIDDLE = ROOT.issue("middle", is_authority=True)
LEAF = MIDDLE.issue("www.example.com")


def subjects(file: File | str) -> list[str]:
    assert isinstance(file, File), file
    chain = x509.load_pem_x509_certificates(file.text)
    return [one.subject.rfc4514_string().removeprefix("CN=") for one in chain]


# -- what is served -----------------------------------------------------------------------------


def test_a_certificate_its_chain_and_its_key_are_one_file_named_by_content():
    file = certificate(LEAF.crt, LEAF.private)
    assert file == named(pem(LEAF.certificate, MIDDLE.certificate) + LEAF.private, ".pem", ("www.example.com",))
    assert file == certificate(LEAF.crt, LEAF.private)
    assert file.name != certificate(LEAF.own, LEAF.private).name
    assert file.name.endswith(".pem")
    assert len(file.name) == 20


@pytest.mark.parametrize(
    "text",
    [
        pem(LEAF.certificate, MIDDLE.certificate, ROOT.certificate),
        pem(ROOT.certificate, MIDDLE.certificate, LEAF.certificate),
        pem(MIDDLE.certificate, LEAF.certificate),
        pem(LEAF.certificate, issued("stranger").certificate, MIDDLE.certificate, MIDDLE.certificate),
        b"Bag Attributes\n" + LEAF.private + LEAF.crt + b"trailing words\n",
    ],
)
def test_chain_is_ordered_and_stripped_of_unrelated_certificates(text):
    assert subjects(certificate(text, LEAF.private)) == ["www.example.com", "middle"]
    assert certificate(text, LEAF.private) == certificate(LEAF.crt, LEAF.private)


def test_an_authority_that_is_there_twice_is_the_one_that_another_signed():
    old = authority("old root")
    crossed = old.issue("root", key=ROOT.key, is_authority=True)
    text = pem(LEAF.certificate, ROOT.certificate, MIDDLE.certificate, crossed.certificate)
    assert subjects(certificate(text, LEAF.private)) == ["www.example.com", "middle", "root"]


def test_authorities_that_sign_each_other_end_somewhere():
    one, other = ROOT.issue("one", is_authority=True), authority("other")
    back = other.issue("one", key=one.key, is_authority=True)
    forth = one.issue("other", key=other.key, is_authority=True)
    leaf = one.issue("leaf")
    text = pem(leaf.certificate, back.certificate, forth.certificate)
    assert subjects(certificate(text, leaf.private)) == ["leaf", "one", "other"]


def test_a_self_signed_certificate_is_served():
    alone = issued("alone")
    assert subjects(certificate(alone.crt or alone.own, alone.private)) == ["alone"]


def test_a_certificate_that_has_expired_is_served():
    late = MIDDLE.issue("late", until=dt.datetime(2021, 1, 1, tzinfo=dt.UTC))
    assert subjects(certificate(late.crt, late.private)) == ["late", "middle"]


@pytest.mark.parametrize(
    "key",
    [rsa_key(), curve_key(), curve_key(ec.SECP384R1()), curve_key(ec.SECP521R1()), ed448.Ed448PrivateKey.generate()],
    ids=lambda key: type(key).__name__,
)
def test_kinds_of_keys(key):
    leaf = MIDDLE.issue("kind", key=key)
    assert subjects(certificate(leaf.crt, leaf.private)) == ["kind", "middle"]


@pytest.mark.parametrize("key", [rsa_key(), curve_key()], ids=["rsa", "ec"])
def test_a_key_in_its_former_form_is_written_in_the_newer_one(key):
    leaf = MIDDLE.issue("former", key=key)
    former = private_pem(key, PrivateFormat.TraditionalOpenSSL)
    file = certificate(leaf.crt, former)
    assert file == certificate(leaf.crt, leaf.private)
    assert former not in file.text
    assert load_pem_private_key(file.text[file.text.index(b"-----BEGIN PRIVATE") :], None).public_key()


def test_parameters_before_a_key_on_a_curve_are_passed_over():
    """As ``openssl ecparam -genkey`` writes them."""
    key = curve_key()
    leaf = MIDDLE.issue("parameters", key=key)
    parameters = b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
    former = private_pem(key, PrivateFormat.TraditionalOpenSSL)
    assert certificate(leaf.crt, parameters + former) == certificate(leaf.crt, leaf.private)


def test_the_hosts_of_a_certificate_are_those_that_a_listener_can_have():
    hosts = ("WWW.example.com", "*.example.com", "*", "a_b.example.com", "www.example.com", "x" * 300)
    leaf = MIDDLE.issue("www.example.com", hosts=hosts)
    assert certificate(leaf.crt, leaf.private).hosts == ("www.example.com", "*.example.com")
    many = MIDDLE.issue("many", hosts=[f"h{number}.example.com" for number in range(150)])
    assert len(certificate(many.crt, many.private).hosts) == 100


def loads(path: Path, text: bytes) -> bool:
    """Whether OpenSSL takes a certificate for a server."""
    path.write_bytes(text)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(path)
    except ssl.SSLError:
        return False
    return True


@pytest.mark.parametrize(
    "leaf",
    [LEAF, issued("alone"), MIDDLE.issue("rsa", key=rsa_key()), MIDDLE.issue("ec", key=curve_key(ec.SECP521R1()))],
    ids=lambda leaf: leaf.certificate.subject.rfc4514_string(),
)
def test_openssl_loads_every_accepted_certificate(leaf, tmp_path):
    assert loads(tmp_path / "served.pem", certificate(leaf.crt, leaf.private).text)


def test_openssl_rejects_every_certificate_rejected_as_weak(tmp_path):
    root = authority("root", key=rsa_key())
    for leaf in (
        MIDDLE.issue("short", key=rsa_key(1024)),
        with_sha1(root.issue("weak")),
        with_sha1(root.issue("middle", key=rsa_key(2048, 1), is_authority=True)).issue("below"),
    ):
        assert isinstance(certificate(leaf.crt, leaf.private), str)
        assert not loads(tmp_path / "weak.pem", leaf.crt + leaf.private)


# -- what is refused ----------------------------------------------------------------------------


def with_sha1(one: Issued) -> Issued:
    """Return a certificate that claims a SHA-1 signature: no library signs like that any more."""
    sha256, sha1 = bytes.fromhex("2a864886f70d01010b"), bytes.fromhex("2a864886f70d010105")
    der = one.certificate.public_bytes(Encoding.DER)
    assert der.count(sha256) == 2
    return one._replace(certificate=x509.load_der_x509_certificate(der.replace(sha256, sha1)))


@pytest.mark.parametrize(
    ("crt", "key", "reason"),
    [
        (b"", LEAF.private, "tls.crt holds no certificate"),
        (b"Hello world\n", b"Hello world\n", "tls.crt holds no certificate"),
        (LEAF.crt.replace(b"M", b"!"), LEAF.private, "tls.crt holds no certificate"),
        (LEAF.crt[:-100], LEAF.private, "tls.crt holds no certificate"),
        (LEAF.private, LEAF.private, "tls.crt holds no certificate"),
        (LEAF.crt, b"", "tls.key holds no private key"),
        (LEAF.crt, LEAF.crt, "tls.key holds no private key"),
        (LEAF.crt, LEAF.private[:60], "tls.key holds no private key"),
        (LEAF.crt, private_pem(LEAF.key, encryption=BestAvailableEncryption(b"x")), "tls.key is encrypted"),
        (LEAF.crt, MIDDLE.issue("other").private, "tls.key is the key of no certificate"),
        (LEAF.crt, private_pem(x25519.X25519PrivateKey.generate()), "of a kind that is not supported"),
        (LEAF.crt, private_pem(dsa.generate_private_key(2048)), "of a kind that is not supported"),
        (LEAF.crt, private_pem(rsa_key(1024)), "RSA key of 1024 bits"),
        (LEAF.crt, private_pem(curve_key(ec.SECP256K1())), "curve secp256k1"),
        (pem(*[LEAF.certificate] * 21), LEAF.private, "holds 21 certificates"),
        (LEAF.crt + b"\n" * CERTIFICATE_BYTES, LEAF.private, "the limit is 64,000"),
        (b"x" * 1_000_000, LEAF.private, "the limit is 64,000"),
    ],
)
def test_unusable_certificate_is_rejected_with_a_reason(crt, key, reason):
    assert reason in str(certificate(crt, key))


def test_encrypted_keys_of_the_former_form():
    text = private_pem(rsa_key(), PrivateFormat.TraditionalOpenSSL, BestAvailableEncryption(b"x"))
    assert "encrypted" in str(certificate(LEAF.crt, text))


def test_weak_signatures():
    root = authority("root", key=rsa_key())
    leaf = with_sha1(root.issue("weak"))
    assert "signed with SHA1" in str(certificate(leaf.own, leaf.private))
    below = with_sha1(root.issue("middle", key=rsa_key(2048, 1), is_authority=True)).issue("below")
    assert "signed with SHA1" in str(certificate(below.crt, below.private))
    alone = with_sha1(issued("alone", key=rsa_key()))
    assert subjects(certificate(alone.own, alone.private)) == ["alone"], "no client checks that signature"


def test_a_weak_authority_in_the_chain():
    middle = ROOT.issue("short", key=rsa_key(1024), is_authority=True)
    below = middle.issue("below")
    assert "RSA key of 1024 bits" in str(certificate(below.crt, below.private))


def test_a_key_with_damaged_parts():
    numbers = rsa_key().private_numbers()
    damaged = rsa.RSAPrivateNumbers(
        numbers.p, numbers.q, numbers.d + 2, numbers.dmp1 + 2, numbers.dmq1, numbers.iqmp, numbers.public_numbers
    ).private_key(unsafe_skip_rsa_key_validation=True)
    leaf = MIDDLE.issue("damaged", key=rsa_key())
    assert "damaged" in str(certificate(leaf.crt, private_pem(damaged)))


@given(st.data())
def test_no_bytes_are_a_fault_of_ours(data):
    """Whatever is changed about a certificate or a key, it is served or refused."""
    key = data.draw(st.sampled_from([LEAF.key, rsa_key(), EC_KEY]))
    leaf = MIDDLE.issue("changed", key=key)
    crt, private = bytearray(leaf.crt), bytearray(leaf.private)
    for text in (crt, private):
        for _ in range(data.draw(st.integers(0, 3))):
            text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.sampled_from(b"AQgwZ09+/=-\n x"))
    assert isinstance(certificate(bytes(crt), bytes(private)), File | str)


EC_KEY = curve_key()


def test_a_version_that_does_not_exist():
    der = LEAF.certificate.public_bytes(Encoding.DER)
    version = bytes.fromhex("a003020102")
    assert version in der
    text = b64encode(der.replace(version, bytes.fromhex("a003020150")))
    crt = b"-----BEGIN CERTIFICATE-----\n" + text + b"\n-----END CERTIFICATE-----\n"
    assert "holds no certificate" in str(certificate(crt, LEAF.private))


def test_message_reveals_nothing_of_a_key():
    file = certificate(LEAF.crt, LEAF.private)
    assert repr(file) == f"File({file.name})"


# -- authorities --------------------------------------------------------------------------------


def test_authorities_are_kept_once_each_and_nothing_else_is():
    text = (pem(ROOT.certificate, ROOT.certificate, MIDDLE.certificate) + LEAF.private).decode()
    assert authorities(f"# ours\n{text}") == pem(ROOT.certificate, MIDDLE.certificate)


@pytest.mark.parametrize("text", ["", "Hello world", LEAF.private.decode(), ROOT.own.decode()[:-40], "é"])
def test_authorities_that_can_not_be_read(text):
    assert "holds no certificate" in str(authorities(text))


def test_authorities_that_are_too_many():
    assert "the limit is 256,000" in str(authorities(" " * (AUTHORITY_BYTES + 1)))
