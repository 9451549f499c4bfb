"""Schemas of the kinds that Kubernetes itself defines.

Written by hand in the words of a CRD's schema: what is read here is checked closely, what
else Kubernetes knows is taken as it is, and everything else is an unknown field.
"""

# ruff: noqa: ANN401  a document's values can be anything

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]

_ANY: Schema = {}
_TEXT: Schema = {"type": "string"}
_TEXTS: Schema = {"type": "object", "additionalProperties": _TEXT}
_PORT: Schema = {"type": "integer", "minimum": 1, "maximum": 65535}
_DNS_LABEL: Schema = {"type": "string", "minLength": 1, "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}
_DNS_NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 253, "pattern": "^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$"}


def _fields(known: Mapping[str, Schema], *, others: str = "", required: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return an object with the fields that are checked, and the names of others that are allowed."""
    properties = {**dict.fromkeys(others.split(), _ANY), **known}
    return {"type": "object", "properties": properties, "required": required}


def _list(items: Schema, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


METADATA: Schema = _fields(
    {
        "name": _DNS_NAME,
        "namespace": _DNS_LABEL,
        "labels": _TEXTS,
        "annotations": _TEXTS,
        "generation": {"type": "integer", "minimum": 0},
        "creationTimestamp": {"type": "string", "format": "date-time"},
    },
    others="generateName uid resourceVersion selfLink managedFields finalizers ownerReferences "
    "deletionTimestamp deletionGracePeriodSeconds",
    required=("name",),
)


def _kind(known: Mapping[str, Schema], *, others: str = "", required: tuple[str, ...] = ()) -> dict[str, Any]:
    top = {"apiVersion": _TEXT, "kind": _TEXT, "metadata": METADATA, **known}
    return _fields(top, others=others, required=("metadata", *required))


_SERVICE_PORT: Schema = _fields(
    {
        "name": {**_DNS_LABEL},
        "port": _PORT,
        "protocol": {"type": "string", "enum": ["TCP", "UDP", "SCTP"], "default": "TCP"},
        "appProtocol": _TEXT,
        "targetPort": {"x-kubernetes-int-or-string": True},
        "nodePort": {"type": "integer", "minimum": 0, "maximum": 65535},
    },
    required=("port",),
)

_SERVICE: Schema = _kind(
    {
        "spec": {
            **_fields(
                {
                    "type": {
                        "type": "string",
                        "enum": ["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"],
                        "default": "ClusterIP",
                    },
                    "clusterIP": _TEXT,
                    "externalName": {"type": "string", "maxLength": 253},
                    "ports": _list(_SERVICE_PORT),
                    "selector": _TEXTS,
                },
                others="clusterIPs externalIPs sessionAffinity sessionAffinityConfig loadBalancerIP "
                "loadBalancerClass loadBalancerSourceRanges externalTrafficPolicy internalTrafficPolicy "
                "healthCheckNodePort publishNotReadyAddresses ipFamilies ipFamilyPolicy "
                "allocateLoadBalancerNodePorts trafficDistribution",
            ),
            "x-kubernetes-validations": [
                {
                    "rule": "self.type != 'ExternalName' || (has(self.externalName) && self.externalName != '')",
                    "message": "a Service of the type ExternalName needs externalName: the host that it stands for",
                },
                {
                    "rule": "!has(self.ports) || size(self.ports) < 2 || self.ports.all(p, has(p.name))",
                    "message": "ports need names where there are several",
                },
                {
                    "rule": "!has(self.ports) || "
                    "self.ports.all(p, self.ports.exists_one(q, p.port == q.port && p.protocol == q.protocol))",
                    "message": "two ports have the same number and protocol",
                },
            ],
        },
    },
    others="status",
)

_ENDPOINT: Schema = _fields(
    {
        "addresses": _list({"type": "string", "minLength": 1}, minItems=1, maxItems=100),
        "conditions": _fields({name: {"type": "boolean"} for name in ("ready", "serving", "terminating")}),
    },
    others="hostname nodeName targetRef zone hints deprecatedTopology",
    required=("addresses",),
)

_ENDPOINT_SLICE: Schema = {
    **_kind(
        {
            "addressType": {"type": "string", "enum": ["IPv4", "IPv6", "FQDN"]},
            "endpoints": _list(_ENDPOINT, maxItems=1000),
            "ports": _list(
                _fields(
                    {
                        "name": _TEXT,
                        "port": _PORT,
                        "protocol": {"type": "string", "enum": ["TCP", "UDP", "SCTP"], "default": "TCP"},
                        "appProtocol": _TEXT,
                    }
                ),
                maxItems=100,
            ),
        },
        required=("addressType",),
    ),
    "x-kubernetes-validations": [
        {
            "rule": "has(self.metadata.labels) && 'kubernetes.io/service-name' in self.metadata.labels",
            "message": "needs the label kubernetes.io/service-name: it says which Service these endpoints belong to",
        },
        {
            "rule": "self.addressType == 'FQDN' || !has(self.endpoints) || "
            "self.endpoints.all(e, e.addresses.all(a, isIP(a)))",
            "message": "an address is not an IP address; write IP addresses, or use a Service of the type ExternalName",
        },
    ],
}

BUILT_IN: Mapping[str, Schema] = {
    "Service": _SERVICE,
    "Namespace": _kind({}, others="spec status"),
    "Secret": _kind({"type": _TEXT, "data": _TEXTS, "stringData": _TEXTS}, others="immutable"),
    "ConfigMap": _kind({"data": _TEXTS}, others="binaryData immutable"),
    "EndpointSlice": _ENDPOINT_SLICE,
}
"""By kind: those whose SchemaSource is BUILT_IN."""
