"""Objects for tests, in few words."""

from support import certificates
from varnish_gateway import api
from varnish_gateway.decoding import decode
from varnish_gateway.translate.gateway.listener_set_index import ListenerSetIndex
from varnish_gateway.translate.incremental.store import ObjectStore
from varnish_gateway.translate.incremental.view import View
from varnish_gateway.translate.options import Options
from varnish_gateway.translate.translator import new_store

GATEWAY_API = "gateway.networking.k8s.io"
VARNISH_API = "gateway.varnish-software.com"


def document(kind: str, name: str, namespace: str | None = None, *, group: str = GATEWAY_API, **fields) -> dict:
    """Return a plain document; ``metadata`` in fields is added to its name."""
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {}) | fields.pop("metadata", {})
    version = "v1alpha1" if group == VARNISH_API else "v1"
    return {"apiVersion": f"{group}/{version}".lstrip("/"), "kind": kind, "metadata": metadata} | fields


def obj(kind: str, name: str, namespace: str | None = None, **fields) -> api.Object:
    return decode(document(kind, name, namespace, **fields))


def gateway(name: str = "gw", *listeners: dict, metadata: dict | None = None, **spec) -> api.Gateway:
    desired = listeners or ({"name": "http", "port": 80, "protocol": "HTTP"},)
    return obj(
        "Gateway",
        name,
        "default",
        metadata=metadata or {},
        spec={"gatewayClassName": "varnish", "listeners": desired} | spec,
    )


def listener_set(
    name: str = "set", *listeners: dict, namespace: str = "default", metadata: dict | None = None, parent: str = "gw"
) -> api.ListenerSet:
    desired = listeners or ({"name": "http", "port": 80, "protocol": "HTTP", "hostname": f"{name}.example.com"},)
    spec = {"parentRef": {"name": parent, "namespace": "default"}, "listeners": desired}
    return obj("ListenerSet", name, namespace, metadata=metadata or {}, spec=spec)


def route(name: str = "web", namespace: str = "default", *, metadata: dict | None = None, **spec) -> api.HTTPRoute:
    desired = {
        "parentRefs": [{"name": "gw", "namespace": "default"}],
        "rules": [{"backendRefs": [{"name": "web", "port": 80}]}],
    }
    return obj("HTTPRoute", name, namespace, metadata=metadata or {}, spec=desired | spec)


def service(name: str = "web", namespace: str = "default", **spec) -> api.Service:
    return obj("Service", name, namespace, group="", spec={"ports": [{"name": "http", "port": 80}]} | spec)


def grant(namespace: str, name: str = "grant", *, source: str = "default", **target) -> api.ReferenceGrant:
    return obj(
        "ReferenceGrant",
        name,
        namespace,
        spec={
            "from": [{"group": GATEWAY_API, "kind": "HTTPRoute", "namespace": source}],
            "to": [{"group": "", "kind": "Service"} | target],
        },
    )


def backend_tls(
    name: str = "tls", namespace: str = "default", *, service: str = "web", metadata: dict | None = None, **target: str
) -> api.BackendTLSPolicy:
    """Return a policy that requires TLS to a Service; ``sectionName`` names one of its ports."""
    spec = {"targetRefs": [{"group": "", "kind": "Service", "name": service} | target]}
    return obj("BackendTLSPolicy", name, namespace, metadata=metadata or {}, spec=spec)


def cache_policy(
    name: str = "cache",
    namespace: str = "default",
    *,
    kind: str = "HTTPRoute",
    target: str = "web",
    section: str = "",
    metadata: dict | None = None,
    **spec,
) -> api.VarnishCachePolicy:
    """Return a policy; without fields it has a lifetime of a minute."""
    ref = {"group": GATEWAY_API, "kind": kind, "name": target} | ({"sectionName": section} if section else {})
    ttl = {} if {"forcedTTL", "defaultTTL", "presets"} & spec.keys() else {"defaultTTL": "1m"}
    fields = {"targetRef": ref} | ttl | spec
    return obj("VarnishCachePolicy", name, namespace, group=VARNISH_API, metadata=metadata or {}, spec=fields)


def certificate(name: str = "cert", namespace: str = "default", *, host: str = "www.example.com") -> api.Secret:
    """Return a Secret with a certificate for a host."""
    return decode(certificates.authority("root").issue(host).secret(namespace, name))


def secret_grant(
    namespace: str, name: str = "grant", *, source: str = "default", kind: str = "Secret", owner: str = "Gateway"
) -> api.Object:
    """Let Gateways, or other owners, of a namespace use the Secrets, or other objects, of another."""
    spec = {
        "from": [{"group": GATEWAY_API, "kind": owner, "namespace": source}],
        "to": [{"group": "", "kind": kind}],
    }
    return obj("ReferenceGrant", name, namespace, spec=spec)


def https(name: str = "https", *refs: str | dict, port: int = 443, **fields) -> dict:
    """Return a listener with certificates by name."""
    named = [{"name": ref} if isinstance(ref, str) else ref for ref in refs or ("cert",)]
    return {"name": name, "port": port, "protocol": "HTTPS", "tls": {"certificateRefs": named}} | fields


def keyed(*objects: api.Object) -> dict[api.Key, api.Object]:
    return {api.key_of(each): each for each in objects}


def store_of(*objects: api.Object) -> ObjectStore:
    store = new_store(ListenerSetIndex(), Options())
    for key, each in keyed(*objects).items():
        store.put(key, each)
    return store


def view_of(*objects: api.Object) -> View:
    return View(store_of(*objects))
