"""Decode a plain document into the type of its kind.

In:   a mapping, as JSON or YAML parse to it; a schema and its defaults were applied before.
Out:  the typed object.
Raises UnknownKind for a kind without a type, BadDocument where a field has the wrong type.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from varnish_gateway import errors
from varnish_gateway.api import Object
from varnish_gateway.kinds import KINDS, Kind

TYPES: Mapping[tuple[str, str], type[Object]] = {
    (api_version, kind.name): kind.object_type
    for kind in KINDS.values()
    if kind.object_type is not None
    for api_version in kind.api_versions
}
"""By apiVersion and kind."""


def json_decoder(kind: Kind) -> msgspec.json.Decoder[Object]:
    """Return a decoder of the objects of a kind, as the API server sends them."""
    return msgspec.json.Decoder(kind.object_type or Object)


def decode(document: Mapping[str, Any]) -> Object:
    """Return the typed form of document."""
    version, kind = document.get("apiVersion"), document.get("kind")
    decoded_type = TYPES.get((str(version), str(kind)))
    if decoded_type is None:
        raise errors.UnknownKind(f"Varnish Gateway does not read the kind {kind} of {version}")
    try:
        return msgspec.convert(document, decoded_type)
    except msgspec.ValidationError as error:
        metadata = document.get("metadata")
        name = metadata.get("name", "?") if isinstance(metadata, Mapping) else "?"
        raise errors.BadDocument(f"{kind} {name}: {error}") from error
