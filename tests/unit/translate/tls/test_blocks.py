import pytest

from support.varnish.tls import pair
from varnish_gateway import errors
from varnish_gateway.translate.tls import blocks

ONE = pair("tea")


def test_text_beside_the_blocks_is_dropped():
    key = ONE.key.replace(b"\n", b"\r\n")
    assert blocks.clean_pair(b"text\n\nshow info\n" + ONE.certificate + b"\n\n# more\n\n" + key + b"\nx") == ONE.content


def test_key_before_the_certificate_is_moved_behind_it():
    assert blocks.clean_pair(ONE.key + ONE.certificate) == ONE.content


def test_empty_lines_are_removed():
    """An empty line ends what the admin socket takes as content."""
    assert b"\n\n" not in blocks.clean_pair(ONE.certificate.replace(b"\n", b"\n\n") + ONE.key)


def test_encrypted_key_is_rejected():
    encrypted = ONE.key.replace(b"PRIVATE", b"ENCRYPTED PRIVATE")
    with pytest.raises(errors.BadDocument, match="has 0 private keys in PEM that are not encrypted"):
        blocks.clean_pair(ONE.certificate + encrypted)


def test_authorities_are_certificates_alone():
    assert blocks.clean_authorities(b"x\n" + ONE.content) == ONE.certificate


def test_file_above_the_limit_is_rejected():
    with pytest.raises(errors.BadDocument, match="are the most"):
        blocks.clean_authorities(ONE.certificate * (1 + blocks.FILE_BYTES // len(ONE.certificate)))
