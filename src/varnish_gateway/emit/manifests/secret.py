"""The Secret of a Gateway: tls.json, the files that it names, sources.json, and the operator's token.

Certificates reach pods in this one alone, after every ReferenceGrant has been checked.
"""

from base64 import b64encode

from varnish_gateway.emit import names
from varnish_gateway.emit.manifests.metadata import Manifest, head, stamped
from varnish_gateway.emit.manifests.shape import GatewayShape
from varnish_gateway.emit.tls import encode_sources, encode_tls
from varnish_gateway.ir import Tls


def secret(shape: GatewayShape, tls: Tls, name: str = "", token: str = "") -> Manifest:
    """Return the Secret, or that of an earlier version by its name."""
    manifest = {**head(shape, "v1", "Secret", name or names.secret(shape.name)), "type": "Opaque"}
    files: dict[str, bytes] = {names.TOKEN: token.encode()} if token else {}
    if tls.ports:
        files |= {names.TLS: encode_tls(tls), names.SOURCES: encode_sources(tls), **tls.files}
    if files:
        manifest["data"] = {name: b64encode(text).decode() for name, text in sorted(files.items())}
    return stamped(manifest)
