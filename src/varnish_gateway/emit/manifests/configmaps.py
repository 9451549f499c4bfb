"""The ConfigMaps of a Gateway, each in the part that its field manager owns.

``config_map`` is for GATEWAY_MANAGER, ``routing_map`` and ``shard_map`` are for ROUTE_MANAGER.
Labels and owner of the first ConfigMap come from ``config_map`` alone.
"""

from collections.abc import Collection

from varnish_gateway.emit import names
from varnish_gateway.emit.manifests.metadata import Manifest, stamped_head
from varnish_gateway.emit.manifests.shape import GatewayShape
from varnish_gateway.emit.routing import content_hash


def config_map(shape: GatewayShape, vcl: str, generation: int) -> Manifest:
    """Return main.vcl with its hash, and the generation of the Gateway that it was made for."""
    manifest = stamped_head(shape, names.config_map(shape.name))
    annotations = {names.GENERATION: str(generation), names.VCL_HASH: content_hash(vcl.encode())}
    manifest["metadata"]["annotations"] |= annotations
    return {**manifest, "data": {names.MAIN_VCL: vcl}}


def routing_map(
    shape: GatewayShape,
    routing: bytes,
    index: bytes | None = None,
    fresh: bytes | None = None,
    understood: Collection[str] = (),
) -> Manifest:
    """Return shard 0, and the index where there are more shards, with their newest changes.

    ``understood`` are the capabilities that the shards make use of, or may.
    """
    data = {names.ROUTING: routing.decode()}
    if index is not None:
        data[names.INDEX] = index.decode()
    if fresh is not None:
        data[names.FRESH] = fresh.decode()
    metadata: Manifest = {"name": names.config_map(shape.name), "namespace": shape.namespace}
    if understood:
        metadata["annotations"] = {names.CAPABILITIES: ",".join(sorted(understood))}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def shard_map(shape: GatewayShape, n: int, routing: bytes) -> Manifest:
    """Return shard n, which is not the first."""
    return {
        **stamped_head(shape, names.config_map(shape.name, n)),
        "data": {names.ROUTING: routing.decode()},
    }
