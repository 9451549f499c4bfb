"""tls.json: which certificates end TLS on which port. sources.json: which Secret each comes from.

In:   the TLS of a Gateway.
Out:  the documents that lie beside the files that they name.
Pure.
"""

from collections.abc import Mapping

import msgspec

from varnish_gateway.api import Key, Secret
from varnish_gateway.emit import names
from varnish_gateway.emit.routing import content_hash
from varnish_gateway.ir import Tls, wire


def encode_tls(tls: Tls) -> bytes:
    """Return tls.json."""
    return msgspec.json.encode(wire.TlsDocument(version=2, ports=tls.ports))


def encode_sources(tls: Tls) -> bytes:
    """Return sources.json: namespace/name of Secrets, by file."""
    return msgspec.json.encode(
        {file: [f"{source.namespace}/{source.name}" for source in sources] for file, sources in tls.sources.items()},
        order="sorted",
    )


def decode_sources(contents: Mapping[str, bytes]) -> dict[Key, bytes]:
    """Return the certificates in the data of a Gateway's Secret, by the Secret that each comes from."""
    try:
        listed = _sources.decode(contents.get(names.SOURCES, b"{}"))
    except msgspec.DecodeError:
        return {}  # not written by us
    return {
        Key(Secret.kind, *source.split("/", 1)): contents[file]
        for file, sources in listed.items()
        for source in sources
        if file in contents and source.count("/") == 1
    }


def tls_hash(tls: Tls) -> str:
    """Return the hash by which pods report the certificates that they serve."""
    return content_hash(encode_tls(tls))


_sources = msgspec.json.Decoder(dict[str, list[str]])

NO_TLS = tls_hash(Tls())
