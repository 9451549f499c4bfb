"""Validate where a class keeps the cache, and how large it is.

In:   the spec of a GatewayClassParameters.
Out:  what contradicts itself or the pod, and how to correct it.
Whether a node has the memory or the disk is not known here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from varnish_gateway.api.quantity import amount
from varnish_gateway.api.varnish import StorageParameters
from varnish_gateway.ir import stores

if TYPE_CHECKING:
    from varnish_gateway.api.varnish import ParametersSpec

_SHARE = re.compile(r"[1-9]%|[1-8][0-9]%|90%", re.ASCII)
LEAST, MOST = 16 * 2**20, 2**50


def invalid_storage(spec: ParametersSpec) -> str | None:
    """Return the first problem with the storage."""
    storage = spec.storage
    if storage == StorageParameters():
        return None
    if storage.type not in stores.KINDS:
        return f"storage.type: {storage.type} is not one of {', '.join(stores.KINDS)}"
    if stores.names_a_store(spec.varnishd_extra_args):
        return "storage: a -s in varnishdExtraArgs decides where the cache is; remove one of the two"
    return _invalid_file(spec) if storage.type == stores.FILE else _invalid_memory(spec)


def _invalid_memory(spec: ParametersSpec) -> str | None:
    storage = spec.storage
    if storage.volume:
        return "storage.volume: only a file has a volume; remove it, or write type: File"
    if not storage.size or _SHARE.fullmatch(storage.size):
        return None
    if (problem := _invalid_amount(storage.size, "a share of 1% to 90%, or an amount such as 4Gi")) is not None:
        return problem
    limit = amount(((spec.resources or {}).get("limits") or {}).get("memory"))
    if limit is not None and stores.size(storage) >= limit:
        return f"storage.size: {storage.size} leaves nothing of resources.limits.memory; raise that, or write less"
    return None


def _invalid_file(spec: ParametersSpec) -> str | None:
    storage = spec.storage
    if not storage.size or storage.size.endswith("%"):
        return "storage.size: a file needs an amount; write for example 20Gi"
    if storage.volume and storage.volume not in {volume["name"] for volume in spec.extra_volumes}:
        return f"storage.volume: there is no volume {storage.volume} in extraVolumes; add it there"
    return _invalid_amount(storage.size, "an amount such as 20Gi")


def _invalid_amount(size: str, example: str) -> str | None:
    given = amount(size)
    if given is None:
        return f"storage.size: {size} is no size; write {example}"
    if not LEAST <= given <= MOST:
        return f"storage.size: {size} is not between 16Mi and 1Pi; correct it"
    return None
