"""The infrastructure hash: inputs that pods read only at their start, as an annotation of the pod template.

A change of the hash replaces the pods. So does a change of any other field of the template.
"""

from hashlib import sha256

import msgspec

from varnish_gateway.emit.manifests.shape import GatewayShape, Installation


def image(shape: GatewayShape, installation: Installation) -> str:
    """Return the image of the gateway's container."""
    return shape.parameters.image or installation.image


def infra_hash(shape: GatewayShape, installation: Installation) -> str:
    """Return the hash, as it stands on the pod template."""
    parameters = shape.parameters
    inputs = {
        "image": image(shape, installation),
        "varnishdExtraArgs": parameters.varnishd_extra_args,
        "logging": parameters.logging,
        "imagePullSecrets": installation.image_pull_secrets,
        "sockets": sorted({listener.socket for listener in shape.listeners}),
        "extraVolumes": parameters.extra_volumes,
        "extraVolumeMounts": parameters.extra_volume_mounts,
        "extraInitContainers": parameters.extra_init_containers,
        "backendTLS": False,
    }
    return sha256(msgspec.json.encode(inputs, order="sorted")).hexdigest()
