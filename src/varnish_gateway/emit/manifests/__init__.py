"""The Kubernetes objects of a Gateway.

In:   GatewayShape and Installation.
Out:  manifests for server-side apply.
Pure, and stable: the same shape gives the same bytes. Every value that we choose is written in
the API server's own form, so that ``covers(observed, desired)`` holds after an apply.
"""

from varnish_gateway.emit.manifests.access import secret_names
from varnish_gateway.emit.manifests.compare import covers
from varnish_gateway.emit.manifests.configmaps import config_map, routing_map, shard_map
from varnish_gateway.emit.manifests.infra import infra_hash
from varnish_gateway.emit.manifests.metadata import head_hash
from varnish_gateway.emit.manifests.objects import bindings, objects
from varnish_gateway.emit.manifests.secret import secret
from varnish_gateway.emit.manifests.shape import GatewayShape, Installation

__all__ = [
    "GatewayShape",
    "Installation",
    "bindings",
    "config_map",
    "covers",
    "head_hash",
    "infra_hash",
    "objects",
    "routing_map",
    "secret",
    "secret_names",
    "shard_map",
]
