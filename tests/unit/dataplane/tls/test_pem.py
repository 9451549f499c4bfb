import pytest

from support.varnish.tlslab import pair
from varnish_gateway import errors
from varnish_gateway.dataplane.tls import pem

ONE = pair("tea")


def test_only_blocks_stay():
    key = ONE.key.replace(b"\n", b"\r\n")
    assert pem.clean_pair(b"text\n\nshow info\n" + ONE.certificate + b"\n\n# more\n\n" + key + b"\nx") == ONE.content


def test_the_key_may_come_first():
    assert pem.clean_pair(ONE.key + ONE.certificate) == ONE.content


def test_no_line_is_empty_whatever_came():
    """An empty line ends what the admin socket takes as content."""
    assert b"\n\n" not in pem.clean_pair(ONE.certificate.replace(b"\n", b"\n\n") + ONE.key)


def test_an_encrypted_key_is_none():
    encrypted = ONE.key.replace(b"PRIVATE", b"ENCRYPTED PRIVATE")
    with pytest.raises(errors.BadDocument, match="has 0 private keys in PEM that are not encrypted"):
        pem.clean_pair(ONE.certificate + encrypted)


def test_authorities_are_certificates_alone():
    assert pem.clean_authorities(b"x\n" + ONE.content) == ONE.certificate
    with pytest.raises(errors.BadDocument, match="can't be used"):
        pem.clean_authorities(ONE.certificate.replace(b"\nMII", b"\nAII", 1))
