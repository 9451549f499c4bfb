"""The kinds that we read or write, and where the API server has them.

In:   a kind's name.
Out:  Resource: the path of a collection, an object or a subresource.
Pure.
"""

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote


class Resource(NamedTuple):
    """A kind in one version."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def discovery(self) -> str:
        """The path that lists the kinds of this group and version."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the path of an object, or of the collection when there is no name."""
        path = self.discovery
        if namespace and self.namespaced:
            path += f"/namespaces/{_segment(namespace)}"
        path += f"/{self.plural}"
        if name:
            path += f"/{_segment(name)}"
        return f"{path}/{subresource}" if subresource else path


def _segment(name: str) -> str:
    return name if name.isalnum() else quote(name, safe=":-._~")


_GATEWAY_API = "gateway.networking.k8s.io"
_RBAC = "rbac.authorization.k8s.io"

RESOURCES: Mapping[str, Resource] = {
    resource.kind: resource
    for resource in (
        Resource(_GATEWAY_API, "v1", "gatewayclasses", "GatewayClass", namespaced=False),
        Resource(_GATEWAY_API, "v1", "gateways", "Gateway"),
        Resource(_GATEWAY_API, "v1", "httproutes", "HTTPRoute"),
        Resource(_GATEWAY_API, "v1", "listenersets", "ListenerSet"),
        Resource(_GATEWAY_API, "v1", "referencegrants", "ReferenceGrant"),
        Resource(
            "gateway.varnish-software.com",
            "v1alpha1",
            "gatewayclassparameters",
            "GatewayClassParameters",
            namespaced=False,
        ),
        Resource("", "v1", "configmaps", "ConfigMap"),
        Resource("", "v1", "namespaces", "Namespace", namespaced=False),
        Resource("", "v1", "pods", "Pod"),
        Resource("", "v1", "secrets", "Secret"),
        Resource("", "v1", "services", "Service"),
        Resource("", "v1", "serviceaccounts", "ServiceAccount"),
        Resource("apps", "v1", "deployments", "Deployment"),
        Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
        Resource("coordination.k8s.io", "v1", "leases", "Lease"),
        Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice"),
        Resource("", "v1", "events", "Event"),
        Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"),
        Resource(_RBAC, "v1", "roles", "Role"),
        Resource(_RBAC, "v1", "rolebindings", "RoleBinding"),
    )
}
"""By kind; no two groups that we use have a kind of the same name."""
