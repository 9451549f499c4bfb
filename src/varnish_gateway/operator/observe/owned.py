"""Generated objects, as the API server stores them.

In:   the text of an object, from a watch or as the answer to a write of ours.
Out:  what a comparison with the desired object needs: routing and the contents of Secrets are kept as
      hashes. Of a Gateway's Secret also the certificates, which translation may have to fall back on.
Pure.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct, field

from varnish_gateway.api import Key
from varnish_gateway.emit import names
from varnish_gateway.emit.routing import content_hash
from varnish_gateway.emit.tls import decode_sources
from varnish_gateway.ir import wire
from varnish_gateway.ir.capabilities import NONE


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


class _Secret(_Any, frozen=True):
    data: dict[str, bytes] | None = None


class OwnedObject(Struct, frozen=True):
    """One generated object. ``text`` is the whole object, empty for ConfigMaps.

    ``is_applied_by_us``: managedFields name us. Labels prove nothing: any user can write them.
    """

    uid: str
    version: str
    owner: str  # uid of the controlling owner, "" without one
    is_deleting: bool
    is_applied_by_us: bool
    gateway: Key
    class_label: str  # "" without our labels
    text: bytes

    @property
    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = msgspec.json.decode(self.text)
        return document


class OwnedSecret(OwnedObject, frozen=True):
    """A Gateway's Secret. ``certificates`` are by the Secret that each was copied from.

    ``token`` is the operator's, "" where there is none that can be presented.
    """

    certificates: Mapping[Key, bytes]
    token: str = ""

    def __repr__(self) -> str:
        return f"OwnedSecret({self.gateway})"  # never what is in it


class OwnedConfigMap(OwnedObject, frozen=True):
    """A ConfigMap of a Gateway. ``head`` is the hash of its metadata, ``routing`` that of the key, "" without one.

    ``understood`` are the capabilities that the routing of all shards is expressed with; none where an operator of an
    earlier version has written main.vcl since then. ``vcl_hash`` is what main.vcl should have.
    """

    head: str
    vcl: str | None
    generation: str
    routing: str
    index: bytes | None
    understood: frozenset[str] = NONE
    vcl_hash: str = ""

    @property
    def shards(self) -> int:
        """How many shards the index names; one without an index that can be read."""
        if self.index is None:
            return 1
        try:
            return max(1, len(_index.decode(self.index).shards))
        except msgspec.DecodeError:
            return 1


_TOKEN = re.compile(rb"[0-9a-f]{64}")
_any = msgspec.json.Decoder(_Any)
_secret = msgspec.json.Decoder(_Secret)
_config_map = msgspec.json.Decoder(_ConfigMap)
_index = msgspec.json.Decoder(wire.Index)


def decode_object(text: bytes) -> OwnedObject:
    metadata = _any.decode(text).metadata
    return OwnedObject(**_common(metadata), text=bytes(text))


def decode_config_map(text: bytes) -> OwnedConfigMap:
    found = _config_map.decode(text)
    data, annotations = found.data, found.metadata.annotations
    capabilities, vcl_hash = annotations.get(names.CAPABILITIES, ""), annotations.get(names.VCL_HASH, "")
    is_current = vcl_hash == _hash(data.get(names.MAIN_VCL))
    return OwnedConfigMap(
        **_common(found.metadata),
        text=b"",
        head=annotations.get(names.APPLIED_HASH, ""),
        vcl=data.get(names.MAIN_VCL),
        generation=annotations.get(names.GENERATION, ""),
        routing=_hash(data.get(names.ROUTING)),
        index=data[names.INDEX].encode() if names.INDEX in data else None,
        understood=frozenset(filter(None, capabilities.split(","))) if is_current else NONE,
        vcl_hash=vcl_hash,
    )


def decode_shard(text: bytes, routing: str) -> OwnedConfigMap:
    """Return the ConfigMap of a further shard from its metadata and the hash of the routing just written."""
    metadata = _any.decode(text).metadata
    return OwnedConfigMap(
        **_common(metadata),
        text=b"",
        head=metadata.annotations.get(names.APPLIED_HASH, ""),
        vcl=None,
        generation="",
        routing=routing,
        index=None,
    )


def decode_secret(text: bytes) -> OwnedSecret:
    found = _secret.decode(text)
    hashed = msgspec.json.encode(with_hashed_data(msgspec.json.decode(text)))
    return OwnedSecret(
        **_common(found.metadata),
        text=hashed,
        certificates=decode_sources(found.data or {}),
        token=_token((found.data or {}).get(names.TOKEN, b"")),
    )


def _token(stored: bytes) -> str:
    """Return a token that the operator made. Text of another writer may not fit into a header."""
    return stored.decode() if _TOKEN.fullmatch(stored) else ""


def with_hashed_data(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a Secret with hashes in place of its values."""
    return {**document, "data": {name: _hash(value) for name, value in (document.get("data") or {}).items()}}


def owned_decoder(kind: str) -> Callable[[bytes], OwnedObject]:
    return {"ConfigMap": decode_config_map, "Secret": decode_secret}.get(kind, decode_object)


def _common(metadata: _Metadata) -> dict[str, Any]:
    owner = next((owner.uid for owner in metadata.owner_references if owner.controller), "")
    has_our_label = metadata.labels.get(names.MANAGED_BY_LABEL) == names.OURS
    gateway = Key(
        "Gateway",
        metadata.labels.get(names.NAMESPACE_LABEL, metadata.namespace),
        metadata.annotations.get(names.GATEWAY_ANNOTATION, ""),
    )
    return {
        "uid": metadata.uid,
        "version": metadata.resource_version,
        "owner": owner,
        "is_deleting": metadata.deletion_timestamp is not None,
        "is_applied_by_us": any(
            one.operation == "Apply" and one.manager in names.MANAGERS for one in metadata.managed_fields
        ),
        "gateway": gateway,
        "class_label": metadata.labels.get(names.CLASS_LABEL, "") if has_our_label else "",
    }


def _hash(text: str | None) -> str:
    return content_hash(text.encode()) if text is not None else ""
