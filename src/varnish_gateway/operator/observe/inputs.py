"""Objects whose status the operator writes, as last observed.

In:   the text of an object from the API server.
Out:  ObservedInput: the typed object, and what a status write has to know about the stored one.
Pure.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct, field

from varnish_gateway import api
from varnish_gateway.decoding import json_decoder
from varnish_gateway.emit import names
from varnish_gateway.kinds import Kind, Use

WITHDRAWN: Mapping[str, Any] = {"f:status": {}}
"""The fields that the API server records for a manager that withdrew its status."""


class ObservedInput(NamedTuple):
    """``has_our_status``: managedFields name us as a manager of the status. Only kinds with STATUS_MANAGER have it."""

    obj: api.Object
    version: str
    status: bytes
    is_deleting: bool
    finalizers: tuple[str, ...] = ()
    has_our_status: bool = False


class _Metadata(Struct, rename="camel"):
    resource_version: str = ""
    deletion_timestamp: str | None = None
    finalizers: tuple[str, ...] = ()


class _Envelope(Struct):
    metadata: _Metadata
    status: msgspec.Raw = msgspec.Raw(b"null")


class _Manager(Struct):
    manager: str = ""
    fields: dict[str, Any] = field(default_factory=dict, name="fieldsV1")


class _ManagedMetadata(Struct, rename="camel"):
    managed_fields: tuple[_Manager, ...] = ()


class _Managed(Struct):
    metadata: _ManagedMetadata


_envelope = msgspec.json.Decoder(_Envelope)
_managed = msgspec.json.Decoder(_Managed)


def input_decoder(kind: Kind) -> Callable[[bytes], ObservedInput]:
    """Return the decoder of one kind."""
    decoder = json_decoder(kind)
    has_manager = Use.STATUS_MANAGER in kind.uses

    def decode(text: bytes) -> ObservedInput:
        envelope = _envelope.decode(text)
        metadata = envelope.metadata
        return ObservedInput(
            obj=decoder.decode(text),
            version=metadata.resource_version,
            status=bytes(envelope.status),
            is_deleting=metadata.deletion_timestamp is not None,
            finalizers=metadata.finalizers,
            has_our_status=has_manager and _has_our_status(text),
        )

    return decode


def _has_our_status(text: bytes) -> bool:
    entries = _managed.decode(text).metadata.managed_fields
    return any(one.manager == names.GATEWAY_MANAGER and one.fields != WITHDRAWN for one in entries)
