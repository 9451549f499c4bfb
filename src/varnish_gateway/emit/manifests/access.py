"""What a chaperone may read: its own ConfigMaps, its own Secret, EndpointSlices where its routing points.

The Role names every object. EndpointSlices come from a ClusterRole that is bound in one
namespace at a time, never cluster-wide.
"""

from collections.abc import Iterator, Sequence

from varnish_gateway.emit import names
from varnish_gateway.emit.manifests.metadata import Manifest, head, head_in
from varnish_gateway.emit.manifests.shape import GatewayShape, Installation

RBAC = "rbac.authorization.k8s.io"
FEWEST_SHARD_NAMES = 16
FOLLOW = ("get", "list", "watch")


def access(shape: GatewayShape) -> Iterator[Manifest]:
    """Yield the ServiceAccount and its permissions in its own namespace."""
    account, role, binding = (shape.workload(kind) for kind in ("ServiceAccount", "Role", "RoleBinding"))
    # The pod mounts a token into the one container that needs it.
    yield {**head(shape, "v1", "ServiceAccount", account), "automountServiceAccountToken": False}
    yield {**head(shape, f"{RBAC}/v1", "Role", role), "rules": _rules(shape)}
    yield {**head(shape, f"{RBAC}/v1", "RoleBinding", binding), **_bound(shape, "Role", role)}


def shard_names(shape: GatewayShape) -> list[str]:
    """Return the ConfigMaps of further shards, also of those to come: growth need not wait for a Role."""
    foreseen = max(FEWEST_SHARD_NAMES, 2 * shape.shards)
    return [names.config_map(shape.name, shard) for shard in range(1, foreseen)]


def secret_names(shape: GatewayShape) -> list[str]:
    """Return the Secrets that its pods read."""
    former = [names.former_secret(shape.name)] if shape.has_former_secret else []
    return [names.secret(shape.name), *former]


def _rules(shape: GatewayShape) -> list[Manifest]:
    return [
        _rule("configmaps", [names.config_map(shape.name)], FOLLOW),
        _rule("configmaps", shard_names(shape), ("get",)),
        _rule("secrets", secret_names(shape), FOLLOW),
    ]


def _rule(resource: str, resource_names: list[str], verbs: Sequence[str]) -> Manifest:
    return {"apiGroups": [""], "resources": [resource], "resourceNames": resource_names, "verbs": list(verbs)}


def endpoints_binding(shape: GatewayShape, namespace: str, installation: Installation) -> Manifest:
    """Return what lets it read the EndpointSlices of one namespace."""
    name, role = names.endpoints_binding(shape.namespace, shape.name), installation.chaperone_role
    if namespace == shape.namespace:
        return {**head(shape, f"{RBAC}/v1", "RoleBinding", name), **_bound(shape, "ClusterRole", role)}
    return {**head_in(namespace, shape, f"{RBAC}/v1", "RoleBinding", name), **_bound(shape, "ClusterRole", role)}


def _bound(shape: GatewayShape, kind: str, name: str) -> Manifest:
    account = {"kind": "ServiceAccount", "name": shape.workload("ServiceAccount"), "namespace": shape.namespace}
    return {"roleRef": {"apiGroup": RBAC, "kind": kind, "name": name}, "subjects": [account]}
