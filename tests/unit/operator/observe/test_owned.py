"""What is kept of generated objects: no more than a comparison needs."""

import json
from base64 import b64encode

from varnish_gateway.operator.observe.owned import decode_secret, decoder_of, hidden

KEY = b64encode(b"-----BEGIN PRIVATE KEY-----").decode()


def stored(**data: str) -> bytes:
    metadata = {"name": "gw-tls", "namespace": "shop", "resourceVersion": "7"}
    return json.dumps({"metadata": metadata, "type": "Opaque", "data": data}).encode()


def test_what_a_secret_holds_is_not_kept():
    live = decode_secret(stored(**{"a.pem": KEY}))
    assert decoder_of("Secret") is decode_secret
    assert KEY.encode() not in live.text
    assert live.document["data"].keys() == {"a.pem"}
    assert live.version == "7"


def test_what_a_secret_holds_can_be_compared():
    manifest = {"kind": "Secret", "data": {"a.pem": KEY}}
    assert decode_secret(stored(**{"a.pem": KEY})).document["data"] == hidden(manifest)["data"]
    assert decode_secret(stored(**{"a.pem": "eA=="})).document["data"] != hidden(manifest)["data"]
    assert hidden({"kind": "Secret"})["data"] == decode_secret(stored()).document["data"] == {}
