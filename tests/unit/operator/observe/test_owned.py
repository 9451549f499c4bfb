"""The operator keeps no more of generated objects than a comparison needs."""

import json
from base64 import b64encode

from varnish_gateway.operator.observe.owned import decode_secret, owned_decoder, with_hashed_data

KEY = b64encode(b"-----BEGIN PRIVATE KEY-----").decode()


def stored(**data: str) -> bytes:
    metadata = {"name": "gw-tls", "namespace": "shop", "resourceVersion": "7"}
    return json.dumps({"metadata": metadata, "type": "Opaque", "data": data}).encode()


def test_contents_of_a_secret_are_not_kept():
    owned = decode_secret(stored(**{"a.pem": KEY}))
    assert owned_decoder("Secret") is decode_secret
    assert KEY.encode() not in owned.text
    assert owned.document["data"].keys() == {"a.pem"}
    assert owned.version == "7"


def test_contents_of_a_secret_are_compared_by_hash():
    manifest = {"kind": "Secret", "data": {"a.pem": KEY}}
    assert decode_secret(stored(**{"a.pem": KEY})).document["data"] == with_hashed_data(manifest)["data"]
    assert decode_secret(stored(**{"a.pem": "eA=="})).document["data"] != with_hashed_data(manifest)["data"]
    assert with_hashed_data({"kind": "Secret"})["data"] == decode_secret(stored()).document["data"] == {}


def test_token_of_a_secret_is_read_if_it_fits_into_a_header():
    def encoded(text: bytes) -> str:
        return b64encode(text).decode()

    assert decode_secret(stored(**{"operator-token": encoded(b"0a" * 32)})).token == "0a" * 32
    for wrong in (b"", b"x\r\nEvil: 1", b"0a" * 31, b"0A" * 32, b"0a" * 32 + b"\n"):
        assert decode_secret(stored(**{"operator-token": encoded(wrong)})).token == ""
    assert decode_secret(stored()).token == ""
