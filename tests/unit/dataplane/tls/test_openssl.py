import pytest

from support.varnish.tls import pair
from varnish_gateway import errors
from varnish_gateway.dataplane.tls import openssl

ONE = pair("tea")


def test_sound_authorities_pass():
    openssl.check_authorities(ONE.certificate)


def test_damaged_authority_is_rejected():
    with pytest.raises(errors.BadDocument, match="can't be used"):
        openssl.check_authorities(ONE.certificate.replace(b"\nMII", b"\nAII", 1))


def test_damaged_certificate_is_rejected(tmp_path):
    (tmp_path / "pair.pem").write_bytes(ONE.content.replace(b"\nMII", b"\nAII", 1))
    with pytest.raises(errors.BadDocument, match="is rejected by OpenSSL"):
        openssl.check_pair(tmp_path / "pair.pem")
