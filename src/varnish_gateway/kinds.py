"""The one table of kinds: every kind that Varnish Gateway reads or writes is a row of ``KINDS``.

Everything that differs by kind follows from its row: the path of an API request (kube/resources.py),
how a document is decoded (decoding.py), how a file is validated (standalone/schema), what the operator
watches (operator/observe), which CRDs are fetched (tools/fetch_schemas.py) and which permissions the
operator's ClusterRole must grant (tests/support/permissions.py).
Data only.
"""

from collections.abc import Mapping
from enum import Enum, Flag, auto
from types import MappingProxyType
from typing import NamedTuple

from varnish_gateway import api
from varnish_gateway.api import core, gateway_networking, varnish


class Use(Flag):
    """What the programs do with objects of a kind. The operator is the actor where none is named."""

    INPUT = auto()  # watches and translates all of them
    REFERENCED = auto()  # watches and translates those that inputs name, with one watch each
    STATUS = auto()  # writes their status
    STATUS_MANAGER = auto()  # managedFields tell whether it wrote the status; no field inside the status does
    EXPIRES = auto()  # deletes those that are finished
    FINALIZER = auto()  # adds its finalizer
    OWNER = auto()  # names them as the owner of the objects that it generates
    OWNED = auto()  # generates them for a Gateway, and watches those with its labels
    POD = auto()  # watches those with its labels, which it does not write itself
    EVENT = auto()  # publishes them
    LEASE = auto()  # elects a leader with one
    ENDPOINTS = auto()  # the chaperone watches them where a Gateway has backends


class SchemaSource(Enum):
    """Where the schema comes from that a file's documents are validated against."""

    CRD = auto()  # tools/fetch_schemas.py writes it from the CustomResourceDefinition
    BUILT_IN = auto()  # standalone/schema/core.py has it: Kubernetes publishes no CRD of its own kinds


class Kind(NamedTuple):
    """One row. ``older_versions`` have the same fields as far as they are read; files may use them.

    ``object_type`` and ``schema`` are None for kinds that the programs only write, or decode for
    themselves; such a kind can't be given in a file. ``reads_older_versions``: the operator watches
    an older version where the API server does not serve ``version``, and writes statuses in the same one.
    """

    name: str
    group: str
    version: str
    plural: str
    uses: Use
    namespaced: bool = True
    object_type: type[api.Object] | None = None
    schema: SchemaSource | None = None
    older_versions: tuple[str, ...] = ()
    reads_older_versions: bool = False
    field_selector: str = ""  # of the inputs' watch

    @property
    def api_version(self) -> str:
        return self.api_versions[0]

    @property
    def api_versions(self) -> tuple[str, ...]:
        """Every apiVersion that a file may use, the current one first."""
        versions = (self.version, *self.older_versions)
        return tuple(f"{self.group}/{version}" if self.group else version for version in versions)

    @property
    def fallback_versions(self) -> tuple[str, ...]:
        return self.older_versions if self.reads_older_versions else ()


def _typed(type_: type[api.Object], group_version: str, plural: str, uses: Use) -> Kind:
    group, _, version = group_version.rpartition("/")
    return Kind(
        name=type_.kind,
        group=group,
        version=version,
        plural=plural,
        uses=uses,
        namespaced=type_.namespaced,
        object_type=type_,
        schema=SchemaSource.CRD if group in _GROUPS_OF_CRDS else SchemaSource.BUILT_IN,
    )


_GATEWAY_API = f"{gateway_networking.GROUP}/v1"
_VARNISH = f"{varnish.GROUP}/v1alpha1"
_RBAC = "rbac.authorization.k8s.io"
_GROUPS_OF_CRDS = (gateway_networking.GROUP, varnish.GROUP)
_OLD = ("v1beta1",)
_STATUS = Use.INPUT | Use.STATUS

_ROWS = (
    # -- the Gateway API
    _typed(api.GatewayClass, _GATEWAY_API, "gatewayclasses", _STATUS | Use.FINALIZER)._replace(older_versions=_OLD),
    _typed(api.Gateway, _GATEWAY_API, "gateways", _STATUS | Use.STATUS_MANAGER | Use.OWNER)._replace(
        older_versions=_OLD
    ),
    _typed(api.ListenerSet, _GATEWAY_API, "listenersets", _STATUS | Use.STATUS_MANAGER),
    _typed(api.HTTPRoute, _GATEWAY_API, "httproutes", _STATUS)._replace(older_versions=_OLD),
    # Older clusters serve ReferenceGrants as v1beta1 alone.
    _typed(api.ReferenceGrant, _GATEWAY_API, "referencegrants", Use.INPUT)._replace(
        older_versions=_OLD, reads_older_versions=True
    ),
    # Gateway API v1.1 to v1.3 has BackendTLSPolicies as v1alpha3 alone. Unread, they would leave backends plain HTTP.
    _typed(api.BackendTLSPolicy, _GATEWAY_API, "backendtlspolicies", _STATUS)._replace(
        older_versions=("v1alpha3",), reads_older_versions=True
    ),
    # -- Varnish Gateway's own
    _typed(api.GatewayClassParameters, _VARNISH, "gatewayclassparameters", Use.INPUT),
    _typed(api.VarnishCachePolicy, _VARNISH, "varnishcachepolicies", _STATUS),
    _typed(api.VarnishCacheInvalidation, _VARNISH, "varnishcacheinvalidations", _STATUS | Use.EXPIRES),
    # -- Kubernetes: inputs, some of which the operator also generates
    # Of all Secrets only those with certificates are inputs.
    _typed(api.Secret, "v1", "secrets", Use.INPUT | Use.OWNED)._replace(field_selector=f"type={core.TLS_TYPE}"),
    _typed(api.Service, "v1", "services", Use.INPUT | Use.OWNED),
    _typed(api.Namespace, "v1", "namespaces", Use.INPUT),
    _typed(api.ConfigMap, "v1", "configmaps", Use.REFERENCED | Use.OWNED),
    _typed(api.EndpointSlice, "discovery.k8s.io/v1", "endpointslices", Use.ENDPOINTS),
    # -- Kubernetes: the rest of what the operator generates and uses
    Kind("ServiceAccount", "", "v1", "serviceaccounts", Use.OWNED),
    Kind("Deployment", "apps", "v1", "deployments", Use.OWNED),
    Kind("HorizontalPodAutoscaler", "autoscaling", "v2", "horizontalpodautoscalers", Use.OWNED),
    Kind("PodDisruptionBudget", "policy", "v1", "poddisruptionbudgets", Use.OWNED),
    Kind("Role", _RBAC, "v1", "roles", Use.OWNED),
    Kind("RoleBinding", _RBAC, "v1", "rolebindings", Use.OWNED),
    Kind("Pod", "", "v1", "pods", Use.POD),
    Kind("Event", "", "v1", "events", Use.EVENT),
    Kind("Lease", "coordination.k8s.io", "v1", "leases", Use.LEASE),
)

KINDS: Mapping[str, Kind] = MappingProxyType({kind.name: kind for kind in _ROWS})
"""By name; no two groups in use have a kind of the same name."""


def used_for(use: Use) -> tuple[Kind, ...]:
    """Return the kinds that are used for all of ``use``."""
    return tuple(kind for kind in KINDS.values() if use in kind.uses)
