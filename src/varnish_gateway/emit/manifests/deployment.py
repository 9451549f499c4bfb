"""The Deployment of a Gateway.

Routes, endpoints, VCL, certificates and policies are not part of it: they reach running pods.
A rolling update never removes a pod before another one is ready.
"""

from fractions import Fraction
from functools import cache
from math import ceil

from msgspec import structs

from varnish_gateway.api.varnish import StorageParameters
from varnish_gateway.emit import names
from varnish_gateway.emit.manifests import containers
from varnish_gateway.emit.manifests.infra import infra_hash
from varnish_gateway.emit.manifests.metadata import Manifest, annotations, digest, head, labels
from varnish_gateway.emit.manifests.shape import GatewayShape, Installation
from varnish_gateway.ir import pod, stores

GRACE_SECONDS = 30
STORE_MARGIN = Fraction(21, 20)
USER = 65532
"""Pods run as this user, whatever user the image names: the containers of a pod share files."""


def deployment(shape: GatewayShape, installation: Installation) -> Manifest:
    """Return the Deployment. With autoscaling the autoscaler decides the number of pods."""
    spec: Manifest = {
        "selector": {"matchLabels": names.pod_selector(shape.name)},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": "25%"}},
        "template": _template(shape, installation),
    }
    if shape.parameters.autoscaling is None:
        spec["replicas"] = 1 if shape.parameters.replicas is None else shape.parameters.replicas
    begun = head(shape, "apps/v1", "Deployment", shape.workload("Deployment"))
    begun["metadata"]["annotations"] |= {
        names.TEMPLATE: template_hash(installation),
        names.OWN_TEMPLATE: digest({**spec, "template": _template(_without_listener_sets(shape), installation)}),
    }
    return {**begun, "spec": spec}


def _without_listener_sets(shape: GatewayShape) -> GatewayShape:
    return structs.replace(shape, listeners=tuple(one for one in shape.listeners if one.listener_set is None))


@cache
def template_hash(installation: Installation) -> str:
    """Return the hash of a template that no Gateway and no class has changed.

    It differs between two operators if one would replace all pods of the other.
    """
    return digest(_template(GatewayShape(namespace="", name="any", uid="", class_name=""), installation))


def _template(shape: GatewayShape, installation: Installation) -> Manifest:
    own = annotations(shape, shape.parameters.pod_annotations)
    return {
        "metadata": {
            "labels": labels(shape),
            "annotations": {**own, names.INFRA_HASH: infra_hash(shape, installation)},
        },
        "spec": {**_pod(shape, installation), **_placement(shape)},
    }


def _pod(shape: GatewayShape, installation: Installation) -> Manifest:
    parameters = shape.parameters
    running = [containers.gateway(shape, installation)]
    if parameters.logging is not None:
        running.append(containers.access_log(shape, installation, parameters.logging))
    spec: Manifest = {
        "serviceAccountName": shape.workload("ServiceAccount"),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,  # a Service called varnish-admin would set VARNISH_ADMIN_PORT
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "securityContext": _security(),
        "containers": running,
        "volumes": [*_volumes(), *_store(parameters.storage), *parameters.extra_volumes],
    }
    if parameters.extra_init_containers:
        spec["initContainers"] = list(parameters.extra_init_containers)
    if installation.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in installation.image_pull_secrets]
    return spec


def _placement(shape: GatewayShape) -> Manifest:
    parameters = shape.parameters
    ours = {"labelSelector": {"matchLabels": names.pod_selector(shape.name)}}
    placement = {
        "affinity": parameters.affinity,
        "nodeSelector": parameters.node_selector,
        "priorityClassName": parameters.priority_class_name,
        "tolerations": list(parameters.tolerations),
        # A constraint without a selector spreads nothing; the pods of this Gateway are meant.
        "topologySpreadConstraints": [ours | constraint for constraint in parameters.topology_spread_constraints],
    }
    return {field: value for field, value in placement.items() if value}


def _security() -> Manifest:
    """Return the pod's security context: an unprivileged user who may open every port of the pod."""
    return {
        "runAsNonRoot": True,
        "runAsUser": USER,
        "runAsGroup": USER,
        "fsGroup": USER,
        "seccompProfile": {"type": "RuntimeDefault"},
        "sysctls": [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}],
    }


def _volumes() -> list[Manifest]:
    """Return the volumes of our own. Private keys lie in the work directory, and must not reach the node's disk."""
    return [
        {"name": pod.WORK.volume, "emptyDir": {"medium": "Memory"}},
        {"name": pod.VARNISH.volume, "emptyDir": {"medium": "Memory"}},
        {"name": pod.TMP.volume, "emptyDir": {}},
        {"name": pod.TOKEN.volume, "projected": {"sources": _token_sources()}},
    ]


def _store(storage: StorageParameters) -> list[Manifest]:
    """Return the volume of a cache in a file, unless the user gives one.

    varnishd allocates the whole file when it starts. The margin is for what the file system adds.
    """
    if storage.type != stores.FILE or storage.volume:
        return []
    mebibytes = ceil(stores.size(storage) * STORE_MARGIN / 2**20)
    return [{"name": pod.STORE.volume, "emptyDir": {"sizeLimit": f"{mebibytes}Mi"}}]


def _token_sources() -> list[Manifest]:
    """Return what Kubernetes would mount into every container by itself."""
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]
