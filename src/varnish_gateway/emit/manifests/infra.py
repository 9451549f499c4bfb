"""The infrastructure hash: whether pods run with what varnishd reads at its start.

The hash is an annotation of the pod template. It covers the image, varnishd's arguments, the
storage, the access log, the sockets and what a class adds to pods: everything that can't change
while a pod runs. It is not the only reason for new pods. Kubernetes replaces pods on any change of the
template: resources, placement, labels and annotations of the Gateway and its class, the log level
of the operator, and whatever a new version of the operator writes there.

The hash must not change between versions without a reason: it would replace every pod.
"""

from hashlib import sha256

import msgspec

from varnish_gateway.api.varnish import Logging, StorageParameters
from varnish_gateway.emit.manifests.shape import GatewayShape, Installation
from varnish_gateway.ir import arguments


def image(shape: GatewayShape, installation: Installation) -> str:
    """Return the image of the gateway's container."""
    return shape.parameters.image or installation.image


def infra_hash(shape: GatewayShape, installation: Installation) -> str:
    """Return the hash for the annotation of the pod template."""
    parameters = shape.parameters
    inputs: dict[str, object] = {
        "image": image(shape, installation),
        "varnishdExtraArgs": arguments.of_class(parameters),
        "logging": _given_fields(parameters.logging) if parameters.logging else None,
        "imagePullSecrets": installation.image_pull_secrets,
        "sockets": sorted({listener.socket for listener in shape.listeners}),
        "extraVolumes": parameters.extra_volumes,
        "extraVolumeMounts": parameters.extra_volume_mounts,
        "extraInitContainers": parameters.extra_init_containers,
        "backendTLS": False,
    }
    if parameters.storage != StorageParameters():  # a class without it keeps the hash of earlier versions
        inputs["storage"] = parameters.storage
    return sha256(msgspec.json.encode(inputs, order="sorted")).hexdigest()


def _given_fields(logging: Logging) -> dict[str, object]:
    """Return the fields that a class gives: it has to give the mode, even that which is the default here."""
    fields = {name: getattr(logging, name) for name in Logging.__struct_fields__}
    return {name: value for name, value in fields.items() if value or name == "mode"}
