"""What every object of a Gateway has in its metadata.

Labels and annotations of ours win over those of the Gateway (spec.infrastructure), and these
win over those of its class: a class gives defaults.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec

from varnish_gateway.emit import names
from varnish_gateway.emit.manifests.shape import GatewayShape

Manifest = dict[str, Any]


def labels(shape: GatewayShape, defaults: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the labels of an object; ``defaults`` are those of the class."""
    return {**(defaults or {}), **shape.labels, **names.labels(shape.namespace, shape.name, shape.class_name)}


def annotations(shape: GatewayShape, defaults: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the annotations of an object; ``defaults`` are those of the class."""
    return {**(defaults or {}), **shape.annotations, names.GATEWAY_ANNOTATION: shape.name}


def head(shape: GatewayShape, api_version: str, kind: str, name: str) -> Manifest:
    """Return the head of an object in the Gateway's namespace, which Kubernetes deletes with the Gateway."""
    started = head_in(shape.namespace, shape, api_version, kind, name)
    started["metadata"] |= {"labels": labels(shape), "annotations": annotations(shape)}
    started["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "Gateway",
            "name": shape.name,
            "uid": shape.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    return started


def head_in(namespace: str, shape: GatewayShape, api_version: str, kind: str, name: str) -> Manifest:
    """Return the head of an object in any namespace: an owner can't be named across namespaces.

    Labels and annotations of the Gateway have no business there: they may mean something to others' policies.
    """
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": names.labels(shape.namespace, shape.name, shape.class_name),
            "annotations": {names.GATEWAY_ANNOTATION: shape.name},
        },
    }


def stamped(manifest: Manifest) -> Manifest:
    """Return the manifest with a hash of itself as an annotation."""
    return _marked(manifest, digest(manifest))


def stamped_head(shape: GatewayShape, name: str) -> Manifest:
    """Return the head of a ConfigMap with a hash of itself; data that is added later has its own."""
    return _marked(head(shape, "v1", "ConfigMap", name), head_hash(shape))


def head_hash(shape: GatewayShape) -> str:
    """Return the hash that all heads of a Gateway's ConfigMaps have in common."""
    return digest([labels(shape), annotations(shape), shape.uid])


def _marked(manifest: Manifest, digest: str) -> Manifest:
    metadata = manifest["metadata"]
    return {
        **manifest,
        "metadata": {**metadata, "annotations": {**metadata["annotations"], names.APPLIED_HASH: digest}},
    }


def digest(content: Any) -> str:  # noqa: ANN401 - any JSON
    return sha256(msgspec.json.encode(content, order="sorted")).hexdigest()[:16]
