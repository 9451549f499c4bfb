"""Kubernetes objects that tests create.

In:   namespaces, names, and what differs from the plain object.
Out:  documents for the API server, the path of each, and ``put``, which applies them as a user does.
"""

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any

from cluster.apiserver.server import Cluster
from varnish_gateway.kinds import KINDS

GATEWAY_API = "gateway.networking.k8s.io/v1"
OURS = "varnish-software.com/gateway"
Document = dict[str, Any]


def path_of(document: Document) -> str:
    """Return where the API server has an object of the kinds that tests make."""
    version, kind, metadata = document["apiVersion"], document["kind"], document["metadata"]
    start = f"/apis/{version}" if "/" in version else f"/api/{version}"
    plural = KINDS[kind].plural if kind in KINDS else f"{kind.lower()}s"
    place = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    return f"{start}{place}/{plural}/{metadata['name']}"


def namespace(name: str) -> Document:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def gateway_class(name: str, parameters: str | None = None) -> Document:
    ref = {"group": "gateway.varnish-software.com", "kind": "GatewayClassParameters", "name": parameters}
    spec = {"controllerName": OURS} | ({"parametersRef": ref} if parameters else {})
    return {"apiVersion": GATEWAY_API, "kind": "GatewayClass", "metadata": {"name": name}, "spec": spec}


def parameters(name: str, **spec: Any) -> Document:
    version = "gateway.varnish-software.com/v1alpha1"
    return {"apiVersion": version, "kind": "GatewayClassParameters", "metadata": {"name": name}, "spec": spec}


def gateway(namespace: str, name: str, class_name: str, *, ports: Iterable[int] = (80,), **spec: Any) -> Document:
    listeners = [
        {"name": f"http-{port}", "port": port, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "All"}}}
        for port in ports
    ]
    return {
        "apiVersion": GATEWAY_API,
        "kind": "Gateway",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"gatewayClassName": class_name, "listeners": listeners, **spec},
    }


def route(
    namespace: str, name: str, gateway_name: str, *, host: str = "", backend: Mapping[str, Any] | None = None
) -> Document:
    """Return a route of the host ``{name}.example.com``, or another, to the Service ``{name}``, or another backend."""
    refs = [{"name": name, "port": 80, **(backend or {})}]
    return {
        "apiVersion": GATEWAY_API,
        "kind": "HTTPRoute",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "parentRefs": [{"name": gateway_name}],
            "hostnames": [host or f"{name}.example.com"],
            "rules": [{"backendRefs": refs}],
        },
    }


def listener_set(namespace: str, name: str, gateway_name: str, **listener: Any) -> Document:
    """Return a ListenerSet with one listener, for the host ``{name}.example.com``."""
    desired = {"name": "http", "port": 80, "protocol": "HTTP", "hostname": f"{name}.example.com", **listener}
    return {
        "apiVersion": GATEWAY_API,
        "kind": "ListenerSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"parentRef": {"name": gateway_name}, "listeners": [desired]},
    }


def reference_grant(namespace: str, route_namespace: str) -> Document:
    """Let routes of a namespace use the Services of another."""
    return {
        "apiVersion": GATEWAY_API,
        "kind": "ReferenceGrant",
        "metadata": {"name": "grant", "namespace": namespace},
        "spec": {
            "from": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": route_namespace}],
            "to": [{"group": "", "kind": "Service"}],
        },
    }


def backend_tls_policy(namespace: str, service_name: str) -> Document:
    """Require TLS to a Service."""
    return {
        "apiVersion": GATEWAY_API,
        "kind": "BackendTLSPolicy",
        "metadata": {"name": "tls", "namespace": namespace},
        "spec": {
            "targetRefs": [{"group": "", "kind": "Service", "name": service_name}],
            "validation": {"hostname": "backend.example.com", "wellKnownCACertificates": "System"},
        },
    }


def cache_policy(namespace: str, kind: str, name: str, **spec: Any) -> Document:
    """Cache what a Gateway or route serves."""
    return {
        "apiVersion": "gateway.varnish-software.com/v1alpha1",
        "kind": "VarnishCachePolicy",
        "metadata": {"name": f"{kind.lower()}-{name}", "namespace": namespace},
        "spec": {
            "targetRef": {"group": "gateway.networking.k8s.io", "kind": kind, "name": name},
            **(spec or {"defaultTTL": "1m"}),
        },
    }


def invalidation(namespace: str, name: str, **spec: Any) -> Document:
    """Invalidate in the Gateway gw, unless the spec names another one."""
    return {
        "apiVersion": "gateway.varnish-software.com/v1alpha1",
        "kind": "VarnishCacheInvalidation",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"gatewayRef": {"name": "gw"}, **spec},
    }


def token_secret(namespace: str, name: str, *tokens: Mapping[str, Any]) -> Document:
    """Return a Secret with the tokens of those who may invalidate."""
    content = json.dumps({"tokens": tokens})
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "type": "Opaque",
        "data": {"tokens.json": base64.b64encode(content.encode()).decode()},
    }


def service(namespace: str, name: str) -> Document:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": 80}]}}


def put(cluster: Cluster, *documents: Document) -> None:
    """Apply documents as a user does."""
    for document in documents:
        cluster.apply(path_of(document), document, manager="kubectl")
