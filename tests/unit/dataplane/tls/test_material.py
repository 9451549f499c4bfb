import pytest

from support.varnish.tls import pair, tls
from varnish_gateway import errors
from varnish_gateway.dataplane.tls.material import read_ports, read_tls
from varnish_gateway.emit.names import TLS as TLS_JSON
from varnish_gateway.emit.tls import encode_tls
from varnish_gateway.ir import Tls

WANTED = tls(443, (pair("tea"), ["tea"]), clients="friends")
STORED = {TLS_JSON: encode_tls(WANTED), **WANTED.files}


def test_stored_material_is_read():
    assert read_tls({**STORED, "other": b"x"}, "s") == WANTED


def test_without_tls_json_there_is_no_tls():
    assert read_tls({"other": b"x"}, "s") == Tls()


@pytest.mark.parametrize("name", sorted(WANTED.files))
def test_missing_file_is_reported(name):
    with pytest.raises(errors.BadDocument, match=f"Secret n/s: {name}, which tls.json names, is not there"):
        read_tls({key: value for key, value in STORED.items() if key != name}, "Secret n/s")


def test_file_that_does_not_match_its_hash_is_reported_without_its_content():
    name = next(iter(WANTED.files))
    with pytest.raises(errors.BadDocument, match=f"{name} does not match the hash in its name$"):
        read_tls({**STORED, name: pair("milk").content}, "s")


@pytest.mark.parametrize(
    "text", [b"", b"{", b'{"version":2,"\xe9":1}', b'{"version":1}', b'{"version":2,"ports":[{}]}']
)
def test_empty_document_is_reported_with_its_source(text):
    with pytest.raises(errors.BadDocument, match=r"^s, tls\.json: "):
        read_tls({TLS_JSON: text}, "s")


@pytest.mark.parametrize("name", ["../x.pem", "/etc/passwd", ".hidden", ""])
def test_files_lie_beside_it(name):
    text = encode_tls(WANTED).replace(WANTED.ports[0].certificates[0].file.encode(), name.encode())
    with pytest.raises(errors.BadDocument, match="is not the name of a file beside it"):
        read_ports(text, "s")
