"""The ConfigMaps of a Gateway, each in the part that its field manager owns.

``config_map`` is for GATEWAY_MANAGER, ``routing_map`` and ``shard_map`` are for ROUTE_MANAGER.
Labels and owner of the first ConfigMap come from ``config_map`` alone.
"""

from varnish_gateway.emit import names
from varnish_gateway.emit.manifests.metadata import Manifest, stamped_head
from varnish_gateway.emit.manifests.shape import GatewayShape


def config_map(shape: GatewayShape, vcl: str, generation: int) -> Manifest:
    """Return main.vcl, and the generation of the Gateway that it was made for."""
    manifest = stamped_head(shape, names.config_map(shape.name))
    manifest["metadata"]["annotations"][names.GENERATION] = str(generation)
    return {**manifest, "data": {names.MAIN_VCL: vcl}}


def routing_map(
    shape: GatewayShape, routing: bytes, index: bytes | None = None, fresh: bytes | None = None
) -> Manifest:
    """Return shard 0, and the index where there are more shards, with their newest changes."""
    data = {names.ROUTING: routing.decode()}
    if index is not None:
        data[names.INDEX] = index.decode()
    if fresh is not None:
        data[names.FRESH] = fresh.decode()
    metadata = {"name": names.config_map(shape.name), "namespace": shape.namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def shard_map(shape: GatewayShape, n: int, routing: bytes) -> Manifest:
    """Return shard n, which is not the first."""
    return {
        **stamped_head(shape, names.config_map(shape.name, n)),
        "data": {names.ROUTING: routing.decode()},
    }
