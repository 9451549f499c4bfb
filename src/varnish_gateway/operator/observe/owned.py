"""What the API server holds of our own: generated objects and pods.

In:   objects as reflectors, and answers to our own writes, bring them.
Out:  what a comparison with what is wanted needs, and no more: texts of routing, and what is in
      Secrets, are kept as their hash.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct, field

from varnish_gateway.api import Key
from varnish_gateway.emit import names
from varnish_gateway.emit.routing import content_hash
from varnish_gateway.ir import wire


class _Owner(Struct, frozen=True):
    uid: str
    controller: bool = False


class _Managed(Struct, frozen=True):
    manager: str
    operation: str = ""


class _Metadata(Struct, frozen=True, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    owner_references: tuple[_Owner, ...] = ()
    managed_fields: tuple[_Managed, ...] = ()


class _Any(Struct, frozen=True):
    metadata: _Metadata


class _ConfigMap(_Any, frozen=True):
    data: dict[str, str] = field(default_factory=dict)


class LiveObject(Struct, frozen=True):
    """One object that carries our labels. ``text`` is the whole of it, for all but ConfigMaps.

    ``is_ours``: we applied it. Labels alone prove nothing: anybody can write them.
    """

    uid: str
    version: str
    owner: str  # uid of the controlling owner, "" without one
    is_ending: bool
    is_ours: bool
    gateway: Key
    class_label: str  # "" on an object that is not labelled as ours
    text: bytes

    @property
    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = msgspec.json.decode(self.text)
        return document


class LiveMap(LiveObject, frozen=True):
    """A ConfigMap of ours. Hashes are "" where there is no such key. ``head`` is that of its labels and the like."""

    head: str
    vcl: str | None
    generation: str
    routing: str
    index: bytes | None

    @property
    def shards(self) -> int:
        """How many shards the index names; one where there is none, or none that can be read."""
        if self.index is None:
            return 1
        try:
            return max(1, len(_index.decode(self.index).shards))
        except msgspec.DecodeError:
            return 1


_any = msgspec.json.Decoder(_Any)
_config_map = msgspec.json.Decoder(_ConfigMap)
_index = msgspec.json.Decoder(wire.Index)


def decode_object(text: bytes) -> LiveObject:
    metadata = _any.decode(text).metadata
    return LiveObject(**_common(metadata), text=bytes(text))


def decode_map(text: bytes) -> LiveMap:
    found = _config_map.decode(text)
    data = found.data
    return LiveMap(
        **_common(found.metadata),
        text=b"",
        head=found.metadata.annotations.get(names.APPLIED_HASH, ""),
        vcl=data.get(names.MAIN_VCL),
        generation=found.metadata.annotations.get(names.GENERATION, ""),
        routing=_hash(data.get(names.ROUTING)),
        index=data[names.INDEX].encode() if names.INDEX in data else None,
    )


def decode_shard(text: bytes, routing: str) -> LiveMap:
    """Return the ConfigMap of a further shard by its metadata and the hash of what was just written."""
    metadata = _any.decode(text).metadata
    return LiveMap(
        **_common(metadata),
        text=b"",
        head=metadata.annotations.get(names.APPLIED_HASH, ""),
        vcl=None,
        generation="",
        routing=routing,
        index=None,
    )


def decode_secret(text: bytes) -> LiveObject:
    metadata = _any.decode(text).metadata
    return LiveObject(**_common(metadata), text=msgspec.json.encode(hidden(msgspec.json.decode(text))))


def hidden(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a Secret with hashes in place of what it holds."""
    return {**document, "data": {name: _hash(value) for name, value in (document.get("data") or {}).items()}}


def decoder_of(kind: str) -> Callable[[bytes], LiveObject]:
    return {"ConfigMap": decode_map, "Secret": decode_secret}.get(kind, decode_object)


def _common(metadata: _Metadata) -> dict[str, Any]:
    owner = next((owner.uid for owner in metadata.owner_references if owner.controller), "")
    is_labelled = metadata.labels.get(names.MANAGED_BY_LABEL) == names.OURS
    gateway = Key(
        "Gateway",
        metadata.labels.get(names.NAMESPACE_LABEL, metadata.namespace),
        metadata.annotations.get(names.GATEWAY_ANNOTATION, ""),
    )
    return {
        "uid": metadata.uid,
        "version": metadata.resource_version,
        "owner": owner,
        "is_ending": metadata.deletion_timestamp is not None,
        "is_ours": any(one.operation == "Apply" and one.manager in names.MANAGERS for one in metadata.managed_fields),
        "gateway": gateway,
        "class_label": metadata.labels.get(names.CLASS_LABEL, "") if is_labelled else "",
    }


def _hash(text: str | None) -> str:
    return content_hash(text.encode()) if text is not None else ""
